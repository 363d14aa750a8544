/** The events of a session: the newest page first, earlier ones on demand, and live ones while its stream is open. */
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef, useState } from 'react';
import type { SessionEvent } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { passingRetryDelay, retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { appendRead, type EarlierPage, type EventLog, prependPage } from '../stream/eventLog.js';
import { isSessionEvent } from '../vocabulary/content.js';
import { sessionEventsQueryKey } from '../vocabulary/queryKeys.js';

const PAGE_SIZE = 100;
const STALE_MS = 15_000;
/** With a filter a page may be empty although there are earlier events. So many pages are looked at for one ask. */
const EMPTY_PAGES_MAX = 5;
/** A log that grew by more than this many pages since it was read is read anew from its end. */
const CATCH_UP_PAGES_MAX = 10;
const CATCH_UP_PAGE_SIZE = 1_000;

export interface UseSessionEventsOptions {
  /** Events per page, at most 1,000. */
  pageSize?: number | undefined;
  /** Only these types. */
  eventTypes?: readonly string[] | undefined;
  staleTime?: number | undefined;
  enabled?: boolean | undefined;
}

export interface SessionEventsResult {
  /** Oldest first. */
  events: readonly SessionEvent[];
  /** There are earlier events. */
  hasMore: boolean;
  /** Loads earlier events. */
  fetchNextPage: () => Promise<void>;
  isFetchingNextPage: boolean;
  isLoading: boolean;
  error: Error | null;
  refetch: () => Promise<unknown>;
}

interface LogSource {
  client: SederuntClient;
  sessionId: string;
  pageSize: number;
  eventTypes: readonly string[] | undefined;
}

type PageQuery = { order: 'asc' | 'desc'; limit: number; after_sequence?: number; before_sequence?: number };

async function readPage(source: LogSource, query: PageQuery, signal?: AbortSignal) {
  const types = source.eventTypes?.join(',');
  const page = await source.client.get('/api/sessions/{id}/events', {
    path: { id: source.sessionId },
    query: types === undefined || types === '' ? query : { ...query, types },
    signal,
  });
  return { ...page, events: page.events.filter(isSessionEvent) };
}

/** Looks backwards until there is something to show, the log begins, or enough pages were looked at. */
async function readEarlier(source: LogSource, before: number | undefined, signal?: AbortSignal) {
  let cursor = before;
  for (let looked = 1; ; looked += 1) {
    const query: PageQuery = { order: 'desc', limit: source.pageSize };
    const page = await readPage(source, cursor === undefined ? query : { ...query, before_sequence: cursor }, signal);
    const earlierBefore = page.has_more && page.next_after !== cursor ? page.next_after : null;
    if (page.events.length > 0 || earlierBefore === null || looked === EMPTY_PAGES_MAX) {
      const found: EarlierPage = { events: page.events, earlierBefore };
      return { found, lastSequence: page.last_sequence };
    }
    cursor = earlierBefore;
  }
}

async function openLog(source: LogSource, signal: AbortSignal): Promise<EventLog> {
  const { found, lastSequence } = await readEarlier(source, undefined, signal);
  const newest = found.events[0]?.sequence ?? 0;
  return {
    events: [...found.events].reverse(),
    lastSequence: source.eventTypes === undefined && newest > 0 ? newest : Math.max(lastSequence, newest),
    earlierBefore: found.earlierBefore,
  };
}

/** Reads what came since; null if that is too much, or if the log is another one now. */
async function readSince(source: LogSource, log: EventLog, signal: AbortSignal) {
  const events: SessionEvent[] = [];
  let after = log.lastSequence;
  for (let pages = 0; pages < CATCH_UP_PAGES_MAX; pages += 1) {
    const page = await readPage(source, { order: 'asc', limit: CATCH_UP_PAGE_SIZE, after_sequence: after }, signal);
    if (page.last_sequence < log.lastSequence) return null;
    events.push(...page.events);
    // Without a filter the last event says how far was read; the head of the page may have moved on since its rows.
    const end = source.eventTypes === undefined ? (events.at(-1)?.sequence ?? after) : page.last_sequence;
    if (!page.has_more) return { events, upTo: Math.max(end, after) };
    after = page.next_after;
  }
  return null;
}

async function refreshLog(
  queries: QueryClient,
  queryKey: readonly unknown[],
  source: LogSource,
  signal: AbortSignal,
): Promise<EventLog> {
  const known = queries.getQueryData<EventLog>(queryKey);
  const since = known === undefined ? null : await readSince(source, known, signal);
  if (known === undefined || since === null) return openLog(source, signal);
  // Live events and earlier pages may have come meanwhile.
  return appendRead(queries.getQueryData<EventLog>(queryKey) ?? known, since.events, since.upTo);
}

export function useSessionEvents(sessionId: string, options: UseSessionEventsOptions = {}): SessionEventsResult {
  const { pageSize = PAGE_SIZE, staleTime = STALE_MS, enabled = true } = options;
  const { client } = useSederunt();
  const queries = useQueryClient();
  const types = options.eventTypes?.join(',');
  const eventTypes = useMemo(() => (types === undefined || types === '' ? undefined : types.split(',')), [types]);
  const queryKey = useMemo(
    () => [...sessionEventsQueryKey(sessionId), { pageSize, eventTypes }],
    [sessionId, pageSize, eventTypes],
  );
  const source = useMemo<LogSource>(
    () => ({ client, sessionId, pageSize, eventTypes }),
    [client, sessionId, pageSize, eventTypes],
  );

  const query = useQuery<EventLog>({
    queryKey,
    queryFn: ({ signal }) => refreshLog(queries, queryKey, source, signal),
    staleTime,
    enabled,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
    refetchOnWindowFocus: false,
    // Comparing ten thousand events with themselves would take longer than showing them.
    structuralSharing: false,
  });

  const [isFetchingNextPage, setFetchingNextPage] = useState(false);
  const [earlierError, setEarlierError] = useState<Error | null>(null);
  const underWay = useRef<Promise<void> | null>(null);

  const fetchNextPage = useCallback(() => {
    if (underWay.current !== null) return underWay.current;
    const asked = queries.getQueryData<EventLog>(queryKey)?.earlierBefore ?? null;
    if (asked === null) return Promise.resolve();
    const load = async () => {
      setFetchingNextPage(true);
      setEarlierError(null);
      try {
        const { found } = await readEarlier(source, asked);
        queries.setQueryData<EventLog>(queryKey, (log) => (log === undefined ? log : prependPage(log, asked, found)));
      } catch (error) {
        setEarlierError(error instanceof Error ? error : new Error(String(error)));
      } finally {
        underWay.current = null;
        setFetchingNextPage(false);
      }
    };
    underWay.current = load();
    return underWay.current;
  }, [queries, queryKey, source]);

  return {
    events: query.data?.events ?? NO_EVENTS,
    hasMore: (query.data?.earlierBefore ?? null) !== null,
    fetchNextPage,
    isFetchingNextPage,
    isLoading: query.isLoading,
    error: query.error ?? earlierError,
    refetch: query.refetch,
  };
}

const NO_EVENTS: readonly SessionEvent[] = [];
