/** The transcript of a session: the package's list with filters, a menu on each row, decisions in their place, and links to events. */
import {
  type Session,
  type SessionEvent,
  SessionTranscript,
  type TranscriptHandle,
  useSessionEvents,
} from '@sederunt/react';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Button } from '../../components/Button.js';
import { classNames } from '../../components/classNames.js';
import { Dialog } from '../../components/Dialog.js';
import { useToast } from '../../components/ToastProvider.js';
import { useCopyText } from '../../components/useCopyText.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';
import { Markdown } from '../../markdown/Markdown.js';
import { sessionAddress } from '../sessions/sessionName.js';
import { askedTypes, DEFAULT_GROUPS, EVENT_GROUPS, type EventGroup, eventGroup } from './eventGroups.js';
import { renderApproval } from './InlineApproval.js';
import { JsonText } from './JsonText.js';
import type { ChangeParameters } from './parameters.js';
import { type RowDoings, RowMenu } from './RowMenu.js';

const PAGE_SIZE = 100;
/** A link may point far back: the way there is read in larger pages. */
const PAGE_SIZE_FAR = 1_000;
/** With fewer rows than this on screen, earlier pages are looked at for more; so many pages without being asked. */
const ROWS_FEW = 20;
const LOOK_FURTHER_PAGES = 5;

function renderMarkdown(text: string) {
  return <Markdown text={text} />;
}

function Chips({ shown, onChange }: { shown: readonly EventGroup[]; onChange: (groups: EventGroup[]) => void }) {
  return (
    <fieldset className="flex flex-wrap items-center gap-1">
      <legend className="sr-only">Kinds of events</legend>
      {EVENT_GROUPS.map((group) => {
        const isOn = shown.includes(group);
        return (
          <button
            key={group}
            type="button"
            aria-pressed={isOn}
            onClick={() => {
              const after = EVENT_GROUPS.filter((one) => (one === group ? !isOn : shown.includes(one)));
              onChange(after.length === 0 ? [group] : after);
            }}
            className={classNames(
              'min-h-7 rounded-full border px-2 text-meta',
              isOn ? 'border-edge bg-sunken text-ink' : 'border-line text-soft',
            )}
          >
            <span aria-hidden="true">{isOn ? '✓ ' : ''}</span>
            {group}
          </button>
        );
      })}
    </fieldset>
  );
}

/** Loads earlier pages until the event that the address points at is there, and then brings it into sight, once. */
function useSeek(
  log: ReturnType<typeof useSessionEvents>,
  seq: number | null,
  handle: { current: TranscriptHandle | null },
) {
  const [givenUp, setGivenUp] = useState<number | null>(null);
  const reached = useRef<number | null>(null);
  const first = log.events[0]?.sequence;
  const { hasMore, fetchNextPage, isFetchingNextPage, isLoading, error } = log;
  const isSeeking =
    seq !== null && seq !== givenUp && error === null && (isLoading || (first !== undefined && first > seq && hasMore));
  useEffect(() => {
    if (isSeeking && !isLoading && !isFetchingNextPage) void fetchNextPage();
  }, [isSeeking, isLoading, isFetchingNextPage, fetchNextPage]);
  useEffect(() => {
    if (seq === null) reached.current = null;
    if (seq === null || isSeeking || first === undefined || reached.current === seq || seq === givenUp) return;
    reached.current = seq;
    handle.current?.toSequence(seq) || handle.current?.toOldest();
  }, [seq, isSeeking, first, givenUp, handle]);
  return {
    isSeeking,
    giveUp: () => setGivenUp(seq),
    /** The next change of the address comes from this page, and moves nothing that is in sight already. */
    noteReached: (sequence: number) => {
      reached.current = sequence;
    },
  };
}

/** Looks further back where the newest pages hold few events of these kinds. */
function useLookFurther(log: ReturnType<typeof useSessionEvents>, count: number, filterName: string) {
  const looked = useRef({ filterName, pages: 0 });
  if (looked.current.filterName !== filterName) looked.current = { filterName, pages: 0 };
  const { hasMore, isFetchingNextPage, isLoading, error, fetchNextPage } = log;
  useEffect(() => {
    if (isLoading || isFetchingNextPage || !hasMore || error !== null) return;
    if (count >= ROWS_FEW || looked.current.pages >= LOOK_FURTHER_PAGES) return;
    looked.current.pages += 1;
    void fetchNextPage();
  }, [isLoading, isFetchingNextPage, hasMore, error, count, fetchNextPage]);
}

/** The events that are the first of a row, in their order. */
function rowSequences(events: readonly SessionEvent[], isShown: (event: SessionEvent) => boolean): readonly number[] {
  const calls = new Set<string>();
  return events.flatMap((event) => {
    if (!isShown(event)) return [];
    const metadata = event.metadata as Record<string, unknown> | null | undefined;
    const callId = metadata?.['tool_call_id'];
    if (typeof callId === 'string') {
      if (event.type === 'agent.tool_call') calls.add(callId);
      if (event.type === 'agent.tool_result' && calls.delete(callId)) return [];
    }
    return [event.sequence];
  });
}

interface TranscriptTabProps {
  row: Session;
  seq: number | null;
  show: readonly EventGroup[];
  onChange: ChangeParameters;
  onFork: (sequence: number) => void;
}

export function TranscriptTab({ row, seq, show, onChange, onFork }: TranscriptTabProps) {
  const { id } = row;
  const shown = show.length === 0 ? DEFAULT_GROUPS : show;
  const filterName = shown.join(',');
  const filter = useMemo(() => {
    const groups = filterName.split(',');
    return (event: SessionEvent) => groups.includes(eventGroup(event.type));
  }, [filterName]);
  const eventTypes = useMemo(() => askedTypes(filterName.split(',') as EventGroup[]), [filterName]);
  const [pageSize] = useState(seq === null ? PAGE_SIZE : PAGE_SIZE_FAR);
  const log = useSessionEvents(id, { eventTypes, pageSize });
  const count = useMemo(() => {
    let rows = 0;
    for (let at = log.events.length - 1; at >= 0 && rows < ROWS_FEW; at -= 1) {
      if (filter(log.events[at] as SessionEvent)) rows += 1;
    }
    return rows;
  }, [log.events, filter]);
  /** Events before those that are loaded, of all kinds. */
  const before = log.hasMore ? (log.events[0]?.sequence ?? 1) - 1 : 0;
  const handle = useRef<TranscriptHandle>(null);
  const place = useRef<HTMLDivElement>(null);
  const { isSeeking, giveUp, noteReached } = useSeek(log, seq, handle);
  useLookFurther(log, count, filterName);

  const [raw, setRaw] = useState<readonly SessionEvent[] | null>(null);
  const copyText = useCopyText();
  const toast = useToast();
  const latest = useRef<RowDoings | null>(null);
  const copy = async (text: string, said: string) => {
    if (await copyText(text)) toast.show({ text: said });
  };
  latest.current = {
    copyText: (text) => void copy(text, 'Copied the text.'),
    copyLink: (sequence) => void copy(`${location.origin}${sessionAddress(id, sequence)}`, 'Copied the link.'),
    fork: onFork,
    showRaw: (event, result) => setRaw(result === undefined ? [event] : [event, result]),
  };
  const renderRowEnd = useCallback((event: SessionEvent, result: SessionEvent | undefined) => {
    const doings: RowDoings = {
      copyText: (text) => latest.current?.copyText(text),
      copyLink: (sequence) => latest.current?.copyLink(sequence),
      fork: (sequence) => latest.current?.fork(sequence),
      showRaw: (...events) => latest.current?.showRaw(...events),
    };
    return <RowMenu event={event} result={result} doings={doings} />;
  }, []);

  /** Moves the mark by one row, and begins at the newest one. */
  const move = (step: 1 | -1) => {
    const sequences = rowSequences(log.events, filter);
    const at = seq === null ? -1 : sequences.findLastIndex((sequence) => sequence <= seq);
    const next = at < 0 ? sequences.at(-1) : sequences[Math.min(Math.max(at + step, 0), sequences.length - 1)];
    if (next === undefined) return;
    noteReached(next);
    handle.current?.toSequence(next);
    onChange({ seq: next }, { replace: true });
  };
  useKeys({
    follow: () => handle.current?.toNewest(),
    newest: () => handle.current?.toNewest(),
    oldest: () => handle.current?.toOldest(),
    next: () => move(1),
    previous: () => move(-1),
    open: () => pressIn(place.current, '[aria-current] .sdr-call'),
    actions: () => pressIn(place.current, '[aria-current] [data-row-menu]'),
  });

  return (
    <div ref={place} className="flex min-h-0 flex-1 flex-col">
      <SessionTranscript
        // Another filter is another list, which opens at its newest event.
        key={filterName}
        sessionId={id}
        className="min-h-96 flex-1"
        height="100%"
        label={`Transcript of ${row.title ?? id}`}
        eventTypes={eventTypes}
        filter={filter}
        pageSize={pageSize}
        selectedSequence={seq ?? undefined}
        handleRef={handle}
        renderMarkdown={renderMarkdown}
        renderEvent={renderApproval}
        renderRowEnd={renderRowEnd}
        toolbar={
          <>
            <Chips
              shown={shown}
              onChange={(groups) => {
                const isDefault = groups.join(',') === DEFAULT_GROUPS.join(',');
                onChange({ show: isDefault ? [] : groups }, { replace: true });
              }}
            />
            {before > 0 && !isSeeking && (
              <span className="figures text-meta text-soft">{before.toLocaleString()} earlier</span>
            )}
            {isSeeking && (
              <span role="status" className="flex items-center gap-2 text-meta text-soft">
                Looking for #{seq}…
                <Button kind="ghost" onClick={giveUp}>
                  Stop looking
                </Button>
              </span>
            )}
          </>
        }
      />
      <Dialog isOpen={raw !== null} onOpenChange={() => setRaw(null)} title="Raw JSON" isWide>
        {raw?.map((event) => (
          <JsonText key={event.sequence} value={event} />
        ))}
      </Dialog>
    </div>
  );
}

function pressIn(place: HTMLElement | null, selector: string): boolean {
  const button = place?.querySelector<HTMLButtonElement>(selector);
  if (button === null || button === undefined) return false;
  button.focus({ preventScroll: true });
  button.click();
  return true;
}
