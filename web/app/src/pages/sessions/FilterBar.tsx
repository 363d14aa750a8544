/** The filters of the list: each is one parameter of the address. */
import { isValidSessionStatus, SESSION_STATUSES } from '@sederunt/react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useMe } from '../../auth/SignInProvider.js';
import { Button } from '../../components/Button.js';
import { classNames } from '../../components/classNames.js';
import { Kbd } from '../../components/Kbd.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import { bindingOf } from '../../keyboard/keymap.js';
import {
  isFiltered,
  isSaved,
  NO_FILTERS,
  SESSION_GROUPS,
  SESSION_TYPES,
  type SessionFilters,
  SOURCE_KINDS,
  savedFilters,
} from './filters.js';
import { useAgentNames, useTaskNames } from './useNames.js';

type Change = (patch: Partial<SessionFilters>, options?: { replace?: boolean }) => void;

/** How long typing rests before it is searched. */
const TYPED_MS = 250;

interface ChoiceProps {
  /** What is chosen here, and the word while nothing is. */
  label: string;
  value: string;
  onChange: (value: string) => void;
  children: ReactNode;
}

function Choice({ label, value, onChange, children }: ChoiceProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className={classNames(
        'h-7 max-w-36 shrink-0 rounded-full border px-2 text-row pointer-coarse:h-11',
        value === '' ? 'border-edge bg-raised text-soft' : 'border-accent bg-sunken font-semibold text-ink',
      )}
    >
      <option value="">{label}</option>
      {children}
    </select>
  );
}

function words(value: string): string {
  return value.replaceAll('_', ' ').replaceAll('-', ' ');
}

function Options({ values }: { values: readonly string[] }) {
  return values.map((value) => (
    <option key={value} value={value}>
      {words(value)}
    </option>
  ));
}

/** The names there are; one that the address holds and that is not among them is shown as it is. */
function NamedOptions({ names, chosen }: { names: ReadonlyMap<string, string>; chosen: string }) {
  return (
    <>
      {chosen !== '' && !names.has(chosen) && <option value={chosen}>{chosen}</option>}
      {[...names].map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </>
  );
}

/** A group or one status, in one choice. Several statuses can stand in the address, and are then shown together. */
function StatusChoice({ filters, onChange }: { filters: SessionFilters; onChange: Change }) {
  const { status, group } = filters;
  const several = status.length > 1 ? status.join(',') : null;
  return (
    <Choice
      label="Status"
      value={group ?? status.join(',')}
      onChange={(value) =>
        onChange({
          group: SESSION_GROUPS.find((one) => one === value) ?? null,
          status: value.split(',').filter(isValidSessionStatus),
        })
      }
    >
      {several !== null && <option value={several}>{words(several.replaceAll(',', ', '))}</option>}
      <optgroup label="Groups">
        <Options values={SESSION_GROUPS} />
      </optgroup>
      <optgroup label="Statuses">
        <Options values={SESSION_STATUSES} />
      </optgroup>
    </Choice>
  );
}

function SearchField({ filters, onChange }: { filters: SessionFilters; onChange: Change }) {
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(filters.q);
  const sent = useRef(filters.q);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useKey('search', () => input.current?.focus());
  useEffect(() => {
    // The address was changed by something else than this field, such as the way back.
    if (filters.q === sent.current) return;
    sent.current = filters.q;
    setTyped(filters.q);
  }, [filters.q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (text: string) => {
    clearTimeout(timer.current);
    sent.current = text.trim();
    onChange({ q: text.trim() }, { replace: true });
  };
  return (
    <search className="relative flex min-w-32 flex-1 items-center wide:max-w-64">
      <input
        ref={input}
        type="search"
        aria-label="Search sessions"
        placeholder="Search…"
        maxLength={200}
        value={typed}
        onChange={(event) => {
          const { value } = event.target;
          setTyped(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => search(value), TYPED_MS);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') search(typed);
        }}
        className="h-7 w-full rounded-control border border-edge bg-paper pr-8 pl-2 text-row pointer-coarse:h-11"
      />
      <span className="pointer-events-none absolute right-2">
        <Kbd keys={bindingOf('search').keys[0] ?? ''} />
      </span>
    </search>
  );
}

function Switch({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label className="flex min-h-7 shrink-0 items-center gap-1 text-row whitespace-nowrap text-soft">
      <input
        type="checkbox"
        className="size-4 accent-accent"
        checked={isOn}
        onChange={(event) => onChange(event.target.checked)}
      />
      {label}
    </label>
  );
}

interface FilterProps {
  filters: SessionFilters;
  onChange: Change;
}

function SavedFilters({ filters, onChange }: FilterProps) {
  const me = useMe();
  return savedFilters(me.user?.id).map((saved) => {
    const isOn = isSaved(saved, filters);
    return (
      <Button
        key={saved.name}
        kind="ghost"
        aria-pressed={isOn}
        className="aria-pressed:bg-sunken aria-pressed:font-semibold aria-pressed:text-ink"
        onClick={() => onChange(isOn ? NO_FILTERS : { ...NO_FILTERS, ...saved.filters })}
      >
        {saved.name}
      </Button>
    );
  });
}

/** Stands beside the title: words, where they are looked for, and the filters that stand ready. */
export function SearchBar({ filters, onChange }: FilterProps) {
  return (
    <>
      <SearchField filters={filters} onChange={onChange} />
      <Switch
        label="in messages"
        isOn={filters.in !== null}
        onChange={(isOn) => onChange({ in: isOn ? 'messages' : null })}
      />
      <SavedFilters filters={filters} onChange={onChange} />
    </>
  );
}

/** Stands over the list. On narrow screens it scrolls sideways, so that the list keeps the height. */
export function FilterBar({ filters, onChange }: FilterProps) {
  const agents = useAgentNames();
  const tasks = useTaskNames();
  return (
    <fieldset className="mb-3 flex items-center gap-2 overflow-x-auto p-0.5 wide:flex-wrap">
      <legend className="sr-only">Filters</legend>
      <Choice
        label="Type"
        value={filters.type ?? ''}
        onChange={(value) => onChange({ type: SESSION_TYPES.find((one) => one === value) ?? null })}
      >
        <Options values={SESSION_TYPES} />
      </Choice>
      <StatusChoice filters={filters} onChange={onChange} />
      <Choice label="Agent" value={filters.agent} onChange={(agent) => onChange({ agent })}>
        <NamedOptions names={agents} chosen={filters.agent} />
      </Choice>
      <Choice label="Task" value={filters.task} onChange={(task) => onChange({ task })}>
        <NamedOptions names={tasks} chosen={filters.task} />
      </Choice>
      <Choice
        label="Kind"
        value={filters.kind ?? ''}
        onChange={(value) => onChange({ kind: SOURCE_KINDS.find((one) => one === value) ?? null })}
      >
        <Options values={SOURCE_KINDS} />
      </Choice>
      <Switch label="steps" isOn={filters.steps} onChange={(steps) => onChange({ steps })} />
      <Switch label="hidden" isOn={filters.inactive} onChange={(inactive) => onChange({ inactive })} />
      {isFiltered(filters) && (
        <Button kind="ghost" onClick={() => onChange(NO_FILTERS)}>
          Clear
        </Button>
      )}
    </fieldset>
  );
}
