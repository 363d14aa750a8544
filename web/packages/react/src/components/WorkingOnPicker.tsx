/** What am I working on? Idle: one button. At work: the task with its time, and a button that stops in one click. */
import { type KeyboardEvent, type SyntheticEvent, useEffect, useId, useRef, useState } from 'react';
import type { Task } from '../api/types.js';
import { type ActiveHumanSession, useActiveHumanSession } from '../hooks/useActiveHumanSession.js';
import { useActiveTasks, useCreateTask } from '../hooks/useActiveTasks.js';
import { durationText } from '../vocabulary/time.js';
import { classNames } from './classNames.js';

const ELAPSED_MS = 15_000;
const LISTED_MAX = 50;

export interface WorkingOnPickerProps {
  /** The signed-in person: new tasks are assigned to them, and an owner is offered their tasks alone. */
  userId?: string | undefined;
  /** Signs without words, for a narrow column. The words are read out all the same. */
  isCompact?: boolean | undefined;
  className?: string | undefined;
}

/** How long the work lasts, in words, kept up to date. */
function useElapsed(since: string | null | undefined): string {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!since) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), ELAPSED_MS);
    return () => clearInterval(timer);
  }, [since]);
  return since ? durationText(now - Date.parse(since)) : '';
}

function matching(tasks: readonly Task[], search: string): Task[] {
  const words = search.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const found = tasks.filter((task) => words.every((word) => task.name.toLocaleLowerCase().includes(word)));
  return found.slice(0, LISTED_MAX);
}

/** Closes a layer by Escape, by a click outside of it, and when the focus leaves it. */
function useLayer(isOpen: boolean, close: (isByKey: boolean) => void) {
  const layer = useRef<HTMLDivElement>(null);
  const latest = useRef(close);
  latest.current = close;
  useEffect(() => {
    if (!isOpen) return undefined;
    const isOutside = (event: Event) => !event.composedPath().includes(layer.current as EventTarget);
    const onPointer = (event: Event) => {
      if (isOutside(event)) latest.current(false);
    };
    document.addEventListener('pointerdown', onPointer);
    document.addEventListener('focusin', onPointer);
    return () => {
      document.removeEventListener('pointerdown', onPointer);
      document.removeEventListener('focusin', onPointer);
    };
  }, [isOpen]);
  return layer;
}

interface TaskSearchProps {
  work: ActiveHumanSession;
  userId: string | undefined;
  onDone: () => void;
}

function TaskSearch({ work, userId, onDone }: TaskSearchProps) {
  const [search, setSearch] = useState('');
  const [at, setAt] = useState(0);
  const { tasks, isLoading, error } = useActiveTasks({ assignedTo: userId });
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const found = matching(tasks, search);
  const current = found[Math.min(at, found.length - 1)];
  useEffect(() => field.current?.focus(), []);

  const pick = (task: Task) => {
    const choice = { id: task.id, name: task.name };
    if (work.session === null) work.startMutation.mutate(choice);
    else if (work.task?.id !== task.id) work.switchMutation.mutate(choice);
    onDone();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setAt(Math.max(0, Math.min(found.length - 1, at + step)));
    else if (event.key === 'Enter' && current !== undefined && !event.nativeEvent.isComposing) pick(current);
    else return;
    event.preventDefault();
  };

  return (
    <>
      <input
        ref={field}
        className="sdr-field"
        role="combobox"
        aria-label="Search my tasks"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={current === undefined ? undefined : `${id}-${current.id}`}
        aria-autocomplete="list"
        placeholder="Search my tasks…"
        value={search}
        onChange={(event) => {
          setSearch(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div id={`${id}-list`} className="sdr-options" role="listbox" aria-label="My active tasks" tabIndex={-1}>
        {found.map((task) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys.
          // biome-ignore lint/a11y/useFocusableInteractive: the field above has the focus.
          <div
            key={task.id}
            id={`${id}-${task.id}`}
            role="option"
            className="sdr-option"
            aria-selected={task === current}
            data-working={task.id === work.task?.id}
            onClick={() => pick(task)}
          >
            <span aria-hidden="true">{task.id === work.task?.id ? '✓' : ' '}</span> {task.name}
          </div>
        ))}
      </div>
      {error !== null && (
        <p className="sdr-error" role="alert">
          {error.message}
        </p>
      )}
      {!isLoading && error === null && found.length === 0 && <p className="sdr-soft">No active task matches.</p>}
    </>
  );
}

function NewTask({ work, userId, onDone }: TaskSearchProps) {
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState('');
  const create = useCreateTask(userId);
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);
  const save = async (event: SyntheticEvent) => {
    event.preventDefault();
    if (name.trim() === '' || create.isPending) return;
    try {
      const task = await create.mutateAsync(name.trim());
      work.startMutation.mutate({ id: task.id, name: task.name });
      onDone();
    } catch {
      // The field keeps its text, and the sentence of the refusal is beside it.
    }
  };
  if (!isOpen) {
    return (
      <button type="button" className="sdr-option" onClick={() => setOpen(true)}>
        + Create a task…
      </button>
    );
  }
  return (
    <form onSubmit={(event) => void save(event)}>
      <label htmlFor={id}>Name of the new task</label>
      <input
        ref={field}
        id={id}
        className="sdr-field"
        maxLength={200}
        value={name}
        aria-invalid={create.error !== null}
        onChange={(event) => setName(event.target.value)}
      />
      {create.error !== null && (
        <p className="sdr-error" role="alert">
          {create.error.message}
        </p>
      )}
    </form>
  );
}

export function WorkingOnPicker({ userId, isCompact = false, className }: WorkingOnPickerProps) {
  const work = useActiveHumanSession();
  const [isOpen, setOpen] = useState(false);
  const trigger = useRef<HTMLButtonElement>(null);
  const id = useId();
  const close = (giveFocusBack: boolean) => {
    setOpen(false);
    if (giveFocusBack) trigger.current?.focus();
  };
  const layer = useLayer(isOpen, close);
  const title = work.task?.name ?? work.session?.title ?? '';
  const elapsed = useElapsed(work.session?.started_at ?? work.session?.created_at);
  const isWorking = work.session !== null;
  const refusal = work.startMutation.error ?? work.stopMutation.error ?? work.switchMutation.error;
  const stop = () => {
    work.stopMutation.mutate();
    close(true);
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes the layer wherever the focus in it is.
    <div
      ref={layer}
      data-sdr=""
      className={classNames('sdr-picker', isCompact && 'sdr-compact', className)}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && isOpen) close(true);
      }}
    >
      <div className="sdr-split">
        <button
          ref={trigger}
          type="button"
          className="sdr-button sdr-ghost"
          aria-haspopup="dialog"
          title={isCompact ? title || 'What are you working on?' : undefined}
          aria-expanded={isOpen}
          aria-controls={isOpen ? id : undefined}
          onClick={() => setOpen(!isOpen)}
        >
          <span aria-hidden="true">◎</span>{' '}
          {isWorking ? (
            <span className="sdr-picker-work">
              <span className="sdr-picker-lead">Working on:</span>{' '}
              <span className="sdr-picker-title" title={title} dir="auto">
                {title}
              </span>{' '}
              <span className="sdr-picker-elapsed">
                <span className="sdr-hidden">·</span> {elapsed}
              </span>
            </span>
          ) : (
            <span className="sdr-picker-work">What are you working on?</span>
          )}
        </button>
        {isWorking && (
          <button type="button" className="sdr-button sdr-ghost" aria-label="Stop working" onClick={stop}>
            <span aria-hidden="true">■</span>
          </button>
        )}
      </div>
      {refusal !== null && (
        <p className="sdr-error" role="alert">
          {refusal.message}
        </p>
      )}
      {isOpen && (
        <div id={id} className="sdr-popover" role="dialog" aria-label="What are you working on?">
          <TaskSearch work={work} userId={userId} onDone={() => close(true)} />
          <NewTask work={work} userId={userId} onDone={() => close(true)} />
          {isWorking && (
            <button type="button" className="sdr-option" onClick={stop}>
              ■ Stop working
            </button>
          )}
        </div>
      )}
    </div>
  );
}
