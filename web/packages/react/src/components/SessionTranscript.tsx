/**
 * The log of a session as people read it: opens at the newest event, shows oldest to newest, follows the end while the
 * reader is there, and keeps the row under the eye when events come before or after it. Only rows in sight are in the page.
 */
import {
  type ReactNode,
  type Ref,
  type RefObject,
  useEffect,
  useId,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from 'react';
import { Virtualizer, type VirtualizerHandle } from 'virtua';
import type { SessionEvent } from '../api/types.js';
import { isRefusal } from '../client/refusal.js';
import { useSessionEvents } from '../hooks/useSessionEvents.js';
import { useSessionRealtime } from '../hooks/useSessionRealtime.js';
import type { StreamPhase } from '../stream/follow.js';
import { firstSentence } from '../vocabulary/announcement.js';
import { saidText } from '../vocabulary/content.js';
import { classNames } from './classNames.js';
import { type RenderMarkdown, TranscriptRowView } from './TranscriptRowView.js';
import { NO_ROWS, rowHolds, rowIndexOf, type TranscriptRow, transcriptRows } from './transcriptRows.js';

/** Moves the reader. Everything but `toNewest` ends following. */
export interface TranscriptHandle {
  toNewest: () => void;
  toOldest: () => void;
  /** Brings the row of an event, or the nearest one before it, into sight. False if no loaded row is that old. */
  toSequence: (sequence: number) => boolean;
}

export interface SessionTranscriptProps {
  sessionId: string;
  /** Any CSS length. */
  height?: string | undefined;
  /** Only these types; others are not read from the server. */
  eventTypes?: readonly string[] | undefined;
  /** Leaves out what was read. Unlike `eventTypes` it can keep types whose names are not known. Must keep its identity. */
  filter?: ((event: SessionEvent) => boolean) | undefined;
  /** Events per page, at most 1,000. */
  pageSize?: number | undefined;
  className?: string | undefined;
  /** Draws the text of messages; left out, it is shown as it is. */
  renderMarkdown?: RenderMarkdown | undefined;
  /** Draws an event in your own way; return null for the package's. */
  renderEvent?: ((event: SessionEvent, result: SessionEvent | undefined) => ReactNode) | undefined;
  /** Stands at the end of each row, such as a menu. Must keep its identity. */
  renderRowEnd?: ((event: SessionEvent, result: SessionEvent | undefined) => ReactNode) | undefined;
  /** Marks the row of this event. */
  selectedSequence?: number | undefined;
  handleRef?: Ref<TranscriptHandle> | undefined;
  /** Stands over the rows, before the state of the connection. */
  toolbar?: ReactNode;
  /** False opens no stream. */
  isLive?: boolean | undefined;
  /** Names the transcript for screen readers. */
  label?: string | undefined;
}

/** Nearer to the end than this, the reader follows it. */
const FOLLOW_PX = 80;
const MESSAGE_TYPES: readonly string[] = ['agent.message', 'user.message'];

const PHASE_WORDS: Record<StreamPhase, string> = {
  connecting: 'Connecting…',
  live: 'Live',
  reconnecting: 'Lost the server. Trying again…',
  paused: 'Paused',
  ended: 'Not live',
};

/** A row, or the text that is being written. */
type ShownRow = TranscriptRow | string;

function useRows(all: readonly SessionEvent[], filter: SessionTranscriptProps['filter']): readonly TranscriptRow[] {
  const made = useRef(NO_ROWS);
  const events = useMemo(() => (filter === undefined ? all : all.filter(filter)), [all, filter]);
  const current = useMemo(() => transcriptRows(made.current, events), [events]);
  useLayoutEffect(() => {
    made.current = current;
  }, [current]);
  return current.rows;
}

interface ListData {
  data: readonly ShownRow[];
  /** Whether this very render puts rows in front of those that were there. */
  isPrepended: boolean;
}

/**
 * What the list is given. It takes all rows that a render adds for rows in front, or all of them for rows at the end: where
 * both have come, those at the end follow in a render of their own.
 */
function useListData(rows: readonly TranscriptRow[], delta: string | null): ListData {
  const given = useRef<{ first: number | undefined; length: number }>({ first: undefined, length: 0 });
  const [, renderAgain] = useReducer((times: number) => times + 1, 0);
  const whole: readonly ShownRow[] = useMemo(() => (delta === null ? rows : [...rows, delta]), [rows, delta]);
  const first = rows[0]?.key;
  const before = given.current.first;
  const isPrepended = before !== undefined && first !== undefined && first < before;
  const length = isPrepended ? rowIndexOf(rows, before) + given.current.length : whole.length;
  const isHeldBack = length < whole.length;
  useLayoutEffect(() => {
    given.current = { first, length: Math.min(length, whole.length) };
    if (isHeldBack) renderAgain();
  }, [first, length, whole, isHeldBack]);
  return { data: isHeldBack ? whole.slice(0, length) : whole, isPrepended };
}

/** One sentence for each finished message that arrives while the page is open. */
function useAnnouncement(events: readonly SessionEvent[], isReady: boolean): string {
  const [said, setSaid] = useState('');
  const heardUpTo = useRef<number | undefined>(undefined);
  const last = events.at(-1);
  useEffect(() => {
    if (last === undefined) return;
    const heard = heardUpTo.current;
    heardUpTo.current = last.sequence;
    if (heard === undefined || !isReady || last.sequence <= heard) return;
    // A message often comes together with the change of status after it.
    const message = events.findLast(({ sequence, type }) => sequence <= heard || MESSAGE_TYPES.includes(type));
    if (message === undefined || message.sequence <= heard) return;
    const speaker = message.type === 'agent.message' ? 'agent' : (message.author ?? 'user');
    const text = saidText(message);
    if (text !== '') setSaid(`${speaker}: ${firstSentence(text)}`);
  }, [events, last, isReady]);
  return said;
}

interface Scrolling {
  isFollowing: boolean;
  onScroll: () => void;
  /** Rows have another size than before. */
  onResize: () => void;
  toEnd: () => void;
  stopFollowing: () => void;
}

/**
 * The one owner of the scroll position: stays at the end until the reader scrolls up, and again once they are back. Growth
 * never counts as scrolling up, so that a burst of events does not leave the reader behind.
 */
function useFollowEnd(scroller: RefObject<HTMLElement | null>, growing: unknown): Scrolling {
  const [isFollowing, setFollowing] = useState(true);
  const place = useRef({ isFollowing: true, top: 0 });
  const follow = (is: boolean) => {
    place.current.isFollowing = is;
    setFollowing(is);
  };
  const stick = () => {
    const element = scroller.current;
    if (element !== null && place.current.isFollowing) element.scrollTop = element.scrollHeight;
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when rows or the unfinished reply have grown.
  useLayoutEffect(stick, [growing]);
  return {
    isFollowing,
    onScroll: () => {
      const element = scroller.current;
      if (element === null) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      if (scrollHeight - clientHeight - scrollTop <= FOLLOW_PX) follow(true);
      else if (scrollTop < place.current.top) follow(false);
      place.current.top = scrollTop;
    },
    // The list draws its new height after it has told about it.
    onResize: () => queueMicrotask(stick),
    toEnd: () => {
      follow(true);
      stick();
    },
    stopFollowing: () => follow(false),
  };
}

/** How many rows came since the reader left the end. */
function useNewRows(rows: readonly TranscriptRow[], isFollowing: boolean): number {
  const lastSeen = useRef(0);
  const last = rows.at(-1)?.key ?? 0;
  useEffect(() => {
    if (isFollowing) lastSeen.current = last;
  }, [isFollowing, last]);
  if (isFollowing || last <= lastSeen.current) return 0;
  return rows.length - 1 - rowIndexOf(rows, lastSeen.current);
}

function ErrorLine({ error, onRetry }: { error: Error; onRetry: () => void }) {
  const requestId = isRefusal(error) ? error.requestId : undefined;
  return (
    <p className="sdr-error" role="alert">
      {error.message} {requestId !== undefined && <span className="sdr-soft">(id {requestId})</span>}{' '}
      <button type="button" className="sdr-link" onClick={onRetry}>
        Try again
      </button>
    </p>
  );
}

export function SessionTranscript(props: SessionTranscriptProps) {
  const { sessionId, height = '24rem', eventTypes, className, renderMarkdown, renderEvent, isLive = true } = props;
  const log = useSessionEvents(sessionId, { eventTypes, pageSize: props.pageSize });
  const { phase, delta, isReady, refusal } = useSessionRealtime(isLive ? sessionId : null);
  const rows = useRows(log.events, props.filter);
  const scroller = useRef<HTMLElement>(null);
  const { data: shownRows, isPrepended } = useListData(rows, delta);
  const scrolling = useFollowEnd(scroller, shownRows);
  const newRows = useNewRows(rows, scrolling.isFollowing);
  const list = useRef<VirtualizerHandle>(null);
  const announcement = useAnnouncement(log.events, isReady);
  const toRow = (at: number, align: 'start' | 'center') => {
    if (at < 0) return false;
    scrolling.stopFollowing();
    list.current?.scrollToIndex(at, { align });
    return true;
  };
  useImperativeHandle(props.handleRef, () => ({
    toNewest: scrolling.toEnd,
    toOldest: () => void toRow(rows.length === 0 ? -1 : 0, 'start'),
    toSequence: (sequence) => toRow(rowIndexOf(rows, sequence), 'center'),
  }));
  const labelId = useId();
  const isEmpty = !log.isLoading && log.error === null && shownRows.length === 0;

  return (
    <div data-sdr="" className={classNames('sdr-transcript', className)} data-phase={isLive ? phase : undefined}>
      <span id={labelId} className="sdr-hidden">
        {props.label ?? 'Transcript'}
      </span>
      <div className="sdr-transcript-head">
        {props.toolbar}
        {log.hasMore && (
          <button
            type="button"
            className="sdr-button"
            disabled={log.isFetchingNextPage}
            onClick={() => void log.fetchNextPage()}
          >
            {log.isFetchingNextPage ? 'Looking further back…' : 'Load earlier events'}
          </button>
        )}
        {isLive && (
          <span className="sdr-phase" data-phase={phase}>
            {phase === 'ended' && refusal !== undefined ? refusal.message : PHASE_WORDS[phase]}
          </span>
        )}
      </div>
      {log.error !== null && <ErrorLine error={log.error} onRetry={() => void log.refetch()} />}
      {isEmpty && (
        <p className="sdr-soft">
          {log.hasMore || log.events.length > 0 ? 'Nothing of these types so far.' : 'No events yet.'}
        </p>
      )}
      <div className="sdr-scroller-frame" style={{ height }}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
        <section ref={scroller} className="sdr-scroller" tabIndex={0} aria-labelledby={labelId}>
          <Virtualizer
            ref={list}
            scrollRef={scroller}
            data={shownRows}
            shift={isPrepended}
            onScroll={scrolling.onScroll}
            onResize={scrolling.onResize}
          >
            {(row) =>
              typeof row === 'string' ? (
                <div key="unfinished" className="sdr-row sdr-unfinished" dir="auto">
                  <span className="sdr-row-meta">agent</span>
                  <div className="sdr-row-body sdr-text">{row}</div>
                </div>
              ) : (
                <TranscriptRowView
                  key={row.key}
                  row={row}
                  isSelected={props.selectedSequence !== undefined && rowHolds(row, props.selectedSequence)}
                  renderMarkdown={renderMarkdown}
                  renderEvent={renderEvent}
                  renderRowEnd={props.renderRowEnd}
                />
              )
            }
          </Virtualizer>
        </section>
        {!scrolling.isFollowing && (
          <button type="button" className="sdr-button sdr-to-end" onClick={scrolling.toEnd}>
            {newRows === 0 ? '↓ Newest' : `↓ ${newRows.toLocaleString()} new`}
          </button>
        )}
      </div>
      <div className="sdr-hidden" role="status" aria-live="polite">
        {announcement}
      </div>
    </div>
  );
}
