/**
 * What the page holds of one session's log, and the pure rules by which pages and live events become one list: oldest
 * first, every sequence once.
 */
import type { SessionEvent } from '../api/types.js';

export interface EventLog {
  readonly events: readonly SessionEvent[];
  /** The log is known up to here. With a filter, the last event may be older. */
  readonly lastSequence: number;
  /** Where earlier events start (`before_sequence`), or null at the beginning of the log. */
  readonly earlierBefore: number | null;
}

export interface EarlierPage {
  /** Newest first, as the server sends them. */
  readonly events: readonly SessionEvent[];
  readonly earlierBefore: number | null;
}

/** The log with an earlier page in front, or as it is, if the page does not belong there any more. */
export function prependPage(log: EventLog, asked: number, page: EarlierPage): EventLog {
  if (log.earlierBefore !== asked) return log;
  const first = log.events[0]?.sequence ?? Number.POSITIVE_INFINITY;
  const older = page.events.filter((event) => event.sequence < first).reverse();
  return { ...log, events: [...older, ...log.events], earlierBefore: page.earlierBefore };
}

/** The log with everything from a catching-up read; `upTo` is the end of the log then. */
export function appendRead(log: EventLog, read: readonly SessionEvent[], upTo: number): EventLog {
  const fresh = read.filter((event) => event.sequence > log.lastSequence);
  if (fresh.length === 0 && upTo <= log.lastSequence) return log;
  const last = fresh.at(-1)?.sequence ?? 0;
  return {
    ...log,
    events: fresh.length === 0 ? log.events : [...log.events, ...fresh],
    lastSequence: Math.max(log.lastSequence, upTo, last),
  };
}

/**
 * The log after live events, or `behind` if events between the two are missing and must be read. The tail is dense and in
 * order; `wanted` is the filter of the log.
 */
export function advanceLog(
  log: EventLog,
  tail: readonly SessionEvent[],
  wanted: (event: SessionEvent) => boolean,
): EventLog | 'behind' {
  const last = tail.at(-1)?.sequence;
  if (last === undefined || last <= log.lastSequence) return log;
  const first = tail[0]?.sequence ?? last;
  if (first > log.lastSequence + 1) return 'behind';
  const fresh = tail.filter((event) => event.sequence > log.lastSequence && wanted(event));
  return {
    ...log,
    events: fresh.length === 0 ? log.events : [...log.events, ...fresh],
    lastSequence: last,
  };
}
