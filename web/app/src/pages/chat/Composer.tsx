/** Where a message is written. Enter begins a line; ⌘ or Ctrl with Enter sends, as everywhere in the app. */
import { ChevronDown, Square } from 'lucide-react';
import { type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import { Button } from '../../components/Button.js';
import { Menu, MenuItem } from '../../components/Menu.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import type { BusyMode, Drafts } from './drafts.js';

const HEIGHT_PX_MAX = 240;

const MODES: readonly { mode: BusyMode; word: string; words: string }[] = [
  { mode: 'queue', word: 'Queue', words: 'Queue: answer it after this reply' },
  { mode: 'steer', word: 'Steer', words: 'Steer: hand it to the reply that is being written' },
  { mode: 'interrupt', word: 'Interrupt', words: 'Interrupt: stop this reply and answer it now' },
];

export interface ComposerHandle {
  focus: () => void;
  /** Puts a text in, after what is there. */
  add: (text: string) => void;
}

export interface ComposerProps {
  /** Names the draft: a chat, or `new`. */
  place: string;
  /** Null where nothing may be stored. */
  drafts: Drafts | null;
  isBusy: boolean;
  onSend: (text: string, mode: BusyMode) => void;
  onStop: () => void;
  isStopping: boolean;
  takesFocus: boolean;
  ref?: Ref<ComposerHandle> | undefined;
}

function useDraft(place: string, drafts: Drafts | null) {
  const [text, setText] = useState(() => drafts?.read(place) ?? '');
  // What is typed before incognito is switched on is taken out of the storage.
  const canStore = drafts !== null;
  const stored = useRef(drafts);
  useEffect(() => {
    if (!canStore) stored.current?.write(place, '');
  }, [canStore, place]);
  const change = (next: string) => {
    setText(next);
    drafts?.write(place, next);
  };
  return [text, change] as const;
}

export function Composer(props: ComposerProps) {
  const { place, drafts, isBusy, onSend, onStop, isStopping, takesFocus, ref } = props;
  const [text, change] = useDraft(place, drafts);
  const [mode, setMode] = useState<BusyMode>('queue');
  const field = useRef<HTMLTextAreaElement>(null);
  const latest = useRef({ text, change });
  latest.current = { text, change };

  useImperativeHandle(
    ref,
    () => ({
      focus: () => field.current?.focus(),
      add: (added) => {
        const before = latest.current.text.trimEnd();
        latest.current.change(before === '' ? added : `${before}\n\n${added}`);
        field.current?.focus();
      },
    }),
    [],
  );
  useEffect(() => {
    if (takesFocus) field.current?.focus();
  }, [takesFocus]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height follows the text.
  useLayoutEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(HEIGHT_PX_MAX, element.scrollHeight + 2)}px`;
  }, [text]);

  const send = () => {
    const words = text.trim();
    if (words === '') return false;
    onSend(words, isBusy ? mode : 'queue');
    change('');
    setMode('queue');
    return true;
  };
  useKey('send', (event) => (event.target === field.current ? send() : false));
  useKey('leave', (event) => {
    if (event.target !== field.current) return false;
    field.current?.blur();
    return true;
  });

  const chosen = MODES.find((one) => one.mode === mode) ?? MODES[0];
  return (
    <form
      aria-label="Message"
      className="rounded-card border border-edge bg-raised focus-within:outline-2 focus-within:outline-offset-1 focus-within:outline-focus"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        aria-label="Message"
        placeholder="Message…"
        dir="auto"
        rows={1}
        value={text}
        onChange={(event) => change(event.target.value)}
        className="block max-h-60 min-h-10 w-full resize-none bg-transparent px-3 py-2 outline-none"
      />
      <div className="flex items-center justify-end gap-2 px-2 pb-2">
        {isBusy && (
          <span className="mr-auto flex items-center gap-2">
            <Button onClick={onStop} isBusy={isStopping}>
              <Square size={12} aria-hidden="true" /> Stop
            </Button>
          </span>
        )}
        {isBusy && (
          <Menu
            trigger={
              <Button kind="ghost" aria-label={`While a reply is written: ${chosen?.word ?? ''}`}>
                {chosen?.word} <ChevronDown size={14} aria-hidden="true" />
              </Button>
            }
          >
            {MODES.map((one) => (
              <MenuItem key={one.mode} onSelect={() => setMode(one.mode)}>
                {one.words}
              </MenuItem>
            ))}
          </Menu>
        )}
        <Button type="submit" kind="primary" shortcut="send" disabled={text.trim() === ''}>
          Send
        </Button>
      </div>
    </form>
  );
}
