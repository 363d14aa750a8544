/**
 * The live part of one session: one stream, shared by all components that show the session. It keeps the events queries of
 * the session at the end of the log, and tells its listeners about phase, unfinished reply and presence once a frame.
 * It is closed while the tab is hidden, because a browser has few connections to a host, and resumes where it was.
 */
import { hashKey, type QueryClient } from '@tanstack/react-query';
import type { SessionEvent } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { isRefusal, type SederuntRefusal } from '../client/refusal.js';
import { isRecord, isSessionEvent } from '../vocabulary/content.js';
import { sessionEventsQueryKey } from '../vocabulary/queryKeys.js';
import { advanceLog, type EventLog } from './eventLog.js';
import { followStream, isHidden, type StreamMessage, type StreamPhase } from './follow.js';
import { oncePerFrame } from './frame.js';
import { addPiece, NO_REPLY, type ReplyText } from './replyText.js';

export interface FeedState {
  readonly phase: StreamPhase;
  /** The text of a reply that is still being written; null while there is none. */
  readonly delta: string | null;
  /** The backlog was read, and events arrive as they are written. */
  readonly isReady: boolean;
  /** Why the stream ended, or what the last connection broke on. */
  readonly refusal: SederuntRefusal | undefined;
  /** The data of the last `presence` message. */
  readonly presence: unknown;
}

export const IDLE_FEED_STATE: FeedState = {
  phase: 'connecting',
  delta: null,
  isReady: false,
  refusal: undefined,
  presence: undefined,
};

/** Told each event once and in order, and `gap` where events were removed and a reader must read anew. */
export interface FeedReader {
  onEvents?: (events: readonly SessionEvent[]) => void;
  onGap?: () => void;
}

/** How long a hidden tab keeps its stream. */
const HIDDEN_MS_MAX = 5_000;
/** Live events that are kept for queries that answer late. */
const TAIL_EVENTS_MAX = 1_000;

interface EventsFilter {
  eventTypes?: readonly string[] | undefined;
}

function filterOf(queryKey: readonly unknown[]): (event: SessionEvent) => boolean {
  const types = (queryKey[3] as EventsFilter | undefined)?.eventTypes;
  return types === undefined || types.length === 0 ? () => true : (event) => types.includes(event.type);
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

export class SessionFeed {
  #state: FeedState = IDLE_FEED_STATE;
  #reply: ReplyText = NO_REPLY;
  /** Everything up to here was taken from the stream or is known by a query; undefined until it is known. */
  #position: number | undefined;
  #tail: SessionEvent[] = [];
  #untold: SessionEvent[] = [];
  #listeners = new Set<() => void>();
  #readers = new Set<FeedReader>();
  #readUpTo = new Map<string, number>();
  #presenceWishes = 0;
  #running: AbortController | undefined;
  #stopStream: (() => void) | undefined;
  #hideTimer: ReturnType<typeof setTimeout> | undefined;
  #next: FeedState = IDLE_FEED_STATE;
  readonly #frame = oncePerFrame(() => this.#tell());
  readonly #client: SederuntClient;
  readonly #queries: QueryClient;
  readonly #sessionId: string;

  constructor(client: SederuntClient, queries: QueryClient, sessionId: string) {
    this.#client = client;
    this.#queries = queries;
    this.#sessionId = sessionId;
  }

  readonly state = (): FeedState => this.#state;

  /** Listens to the state; the stream is open while there is a listener. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.#start();
    return () => {
      this.#listeners.delete(listener);
      // A component that is mounted again at once, as in strict mode, keeps the stream.
      queueMicrotask(() => {
        if (this.#listeners.size === 0) this.#stop();
      });
    };
  };

  read(reader: FeedReader): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Asks for presence as long as the returned function is not called. */
  wantPresence(): () => void {
    this.#presenceWishes += 1;
    if (this.#presenceWishes === 1 && this.#stopStream !== undefined) this.#connect();
    return () => {
      this.#presenceWishes -= 1;
    };
  }

  /** Opens a stream that has ended, say after signing in again. */
  restart(): void {
    if (this.#running === undefined) return;
    this.#stop();
    this.#start();
  }

  get isIdle(): boolean {
    return this.#listeners.size === 0;
  }

  #start(): void {
    if (this.#running !== undefined) return;
    const running = new AbortController();
    this.#running = running;
    this.#change({ phase: 'connecting', isReady: false, refusal: undefined });
    const unsubscribe = this.#queries.getQueryCache().subscribe((told) => {
      if (told.type !== 'updated' || told.action.type !== 'success' || told.action.manual === true) return;
      const [noun, id, what] = told.query.queryKey;
      if (noun === 'sessions' && id === this.#sessionId && what === 'events') this.#frame.ask();
    });
    const onVisibility = () => this.#followVisibility();
    if (typeof document !== 'undefined') document.addEventListener('visibilitychange', onVisibility);
    running.signal.addEventListener('abort', () => {
      unsubscribe();
      if (typeof document !== 'undefined') document.removeEventListener('visibilitychange', onVisibility);
    });
    void this.#begin(running.signal);
  }

  #stop(): void {
    this.#running?.abort();
    this.#running = undefined;
    clearTimeout(this.#hideTimer);
    this.#hideTimer = undefined;
    this.#disconnect();
    this.#frame.cancel();
    this.#position = undefined;
    this.#tail = [];
    this.#untold = [];
    this.#readUpTo.clear();
    this.#reply = NO_REPLY;
    this.#state = IDLE_FEED_STATE;
    this.#next = IDLE_FEED_STATE;
  }

  async #begin(signal: AbortSignal): Promise<void> {
    await this.#queriesSettled(signal);
    if (signal.aborted) return;
    this.#position = this.#knownPosition();
    if (this.#position === undefined) await this.#askPosition(signal);
    if (signal.aborted || this.#position === undefined) return;
    this.#frame.ask();
    if (isHidden()) this.#change({ phase: 'paused' });
    else this.#connect();
  }

  /** Waits while an events query of this session is under way, because its answer says where the stream starts. */
  #queriesSettled(signal: AbortSignal): Promise<void> {
    const queryKey = sessionEventsQueryKey(this.#sessionId);
    const isUnderWay = () => this.#queries.isFetching({ queryKey }) > 0;
    return new Promise((resolve) => {
      const settle = () => {
        unsubscribe();
        signal.removeEventListener('abort', settle);
        resolve();
      };
      const unsubscribe = this.#queries.getQueryCache().subscribe(() => {
        if (!isUnderWay()) settle();
      });
      signal.addEventListener('abort', settle);
      // Queries of components that are mounted in the same commit start in effects after this one.
      setTimeout(() => {
        if (!isUnderWay()) settle();
      }, 0);
    });
  }

  #logs(): [readonly unknown[], EventLog][] {
    const found = this.#queries.getQueriesData<EventLog>({ queryKey: sessionEventsQueryKey(this.#sessionId) });
    return found.flatMap(([key, log]) => (log === undefined ? [] : [[key, log] as [readonly unknown[], EventLog]]));
  }

  #knownPosition(): number | undefined {
    const known = this.#logs().map(([, log]) => log.lastSequence);
    return known.length === 0 ? undefined : Math.max(...known);
  }

  /** Learns where the log ends, so that the stream does not start with the whole of it. */
  async #askPosition(signal: AbortSignal): Promise<void> {
    for (let tries = 0; !signal.aborted && this.#position === undefined; tries += 1) {
      try {
        const page = await this.#client.get('/api/sessions/{id}/events', {
          path: { id: this.#sessionId },
          query: { order: 'desc', limit: 1 },
          signal,
        });
        this.#position = page.last_sequence;
      } catch (error) {
        if (signal.aborted) return;
        const refusal = isRefusal(error) ? error : undefined;
        if (refusal !== undefined && refusal.status >= 400 && refusal.status < 500 && refusal.status !== 429) {
          this.#change({ phase: 'ended', refusal });
          return;
        }
        this.#change({ phase: 'reconnecting', refusal });
        await new Promise((resolve) => setTimeout(resolve, Math.min(1_500, 250 * 2 ** tries)));
      }
    }
  }

  #connect(): void {
    this.#disconnect();
    const opened = this.#position ?? 0;
    this.#stopStream = followStream({
      client: this.#client,
      path: () => {
        const presence = this.#presenceWishes > 0 ? '&presence=true' : '';
        return `/api/sessions/${encodeURIComponent(this.#sessionId)}/stream?after=${opened}${presence}`;
      },
      lastId: () => (this.#position === opened ? undefined : String(this.#position)),
      onMessage: (message) => this.#take(message),
      onPhase: (phase, refusal) => {
        // Between two connections a reply may have ended; the next one sends all of it again.
        if (phase !== 'live') this.#reply = NO_REPLY;
        this.#change(phase === 'live' ? { phase, refusal: undefined } : { phase, refusal, isReady: false });
      },
    });
  }

  #disconnect(): void {
    this.#stopStream?.();
    this.#stopStream = undefined;
  }

  #followVisibility(): void {
    clearTimeout(this.#hideTimer);
    this.#hideTimer = undefined;
    if (this.#position === undefined || this.#next.phase === 'ended') return;
    if (!isHidden()) {
      if (this.#stopStream === undefined) this.#connect();
      return;
    }
    this.#hideTimer = setTimeout(() => {
      this.#disconnect();
      this.#change({ phase: 'paused', isReady: false });
    }, HIDDEN_MS_MAX);
  }

  #take(message: StreamMessage): void {
    const data = parsed(message.data);
    switch (message.event) {
      case 'message':
        if (isSessionEvent(data)) this.#takeEvent(data);
        return;
      case 'ready':
        this.#change({ isReady: true });
        return;
      case 'delta':
        if (isRecord(data) && typeof data['text'] === 'string' && typeof data['offset'] === 'number') {
          this.#reply = addPiece(this.#reply, { text: data['text'], offset: data['offset'] });
          this.#change({ delta: this.#reply.text });
        }
        return;
      case 'gap':
        if (isRecord(data) && typeof data['first'] === 'number') this.#takeGap(data['first']);
        return;
      case 'presence':
        this.#change({ presence: data });
        return;
      default:
      // A message of a later version, which no component of this version needs.
    }
  }

  #takeEvent(event: SessionEvent): void {
    if (this.#position !== undefined && event.sequence <= this.#position) return;
    // A share link is shown some events only, so a jump is no fault by itself; queries and readers that may have missed something read it.
    if (this.#position !== undefined && event.sequence > this.#position + 1) this.#jump();
    this.#position = event.sequence;
    this.#tail.push(event);
    this.#untold.push(event);
    if (this.#tail.length > 2 * TAIL_EVENTS_MAX) this.#tail = this.#tail.slice(-TAIL_EVENTS_MAX);
    if (event.type === 'agent.message' || event.type === 'session.status_change') this.#reply = NO_REPLY;
    this.#frame.ask();
  }

  #takeGap(first: number): void {
    this.#position = Math.max(this.#position ?? 0, first - 1);
    this.#reply = NO_REPLY;
    void this.#queries.resetQueries({ queryKey: sessionEventsQueryKey(this.#sessionId) });
    this.#jump();
  }

  #jump(): void {
    this.#tail = [];
    this.#untold = [];
    for (const reader of this.#readers) reader.onGap?.();
  }

  #change(change: Partial<FeedState>): void {
    this.#next = { ...this.#next, ...change };
    this.#frame.ask();
  }

  #tell(): void {
    if (this.#running === undefined) return;
    this.#advanceQueries();
    const untold = this.#untold;
    if (untold.length > 0) {
      this.#untold = [];
      for (const reader of this.#readers) reader.onEvents?.(untold);
    }
    const delta = this.#reply.text === '' ? null : this.#reply.text;
    if (delta !== this.#next.delta) this.#next = { ...this.#next, delta };
    if (this.#next === this.#state) return;
    this.#state = this.#next;
    for (const listener of this.#listeners) listener();
  }

  #advanceQueries(): void {
    for (const [queryKey, log] of this.#logs()) {
      const advanced = this.#isBehind(log) ? 'behind' : advanceLog(log, this.#tail, filterOf(queryKey));
      if (advanced === 'behind') this.#readAgain(queryKey);
      else if (advanced !== log) this.#queries.setQueryData(queryKey, advanced);
    }
  }

  /** Reads what a query misses. Not while it reads already, and not twice for the same place. */
  #readAgain(queryKey: readonly unknown[]): void {
    if (this.#position === undefined || this.#queries.isFetching({ queryKey, exact: true }) > 0) return;
    const query = hashKey(queryKey);
    if (this.#readUpTo.get(query) === this.#position) return;
    this.#readUpTo.set(query, this.#position);
    void this.#queries.invalidateQueries({ queryKey, exact: true });
  }

  /** Whether the log ends before the place where this stream was opened, so that no tail can fill it. */
  #isBehind(log: EventLog): boolean {
    return this.#position !== undefined && this.#tail.length === 0 && log.lastSequence < this.#position;
  }
}
