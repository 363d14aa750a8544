/**
 * Hints about what changed: one stream for all tabs of a browser, because a browser has few connections to a host. The tab
 * that holds the lock reads the stream and tells the others. Without locks (plain HTTP beyond loopback) each visible tab
 * reads for itself.
 */
import type { SederuntClient } from '../client/client.js';
import { isRecord } from '../vocabulary/content.js';
import { followStream, isHidden, type StreamPhase } from './follow.js';

export interface SessionHint {
  id: string;
  status: string;
  last_sequence: number;
  row_changed: boolean;
  deleted: boolean;
}

/** `reset`: something was missed, read lists anew. `data` of approvals and counts is what the server sends with them. */
export type Hint =
  | { topic: 'sessions'; sessions: readonly SessionHint[] }
  | { topic: 'approvals'; data: Record<string, unknown> }
  | { topic: 'counts'; data: Record<string, unknown> }
  | { topic: 'reset' };

type TabMessage =
  | { kind: 'hint'; id: string | undefined; hint: Hint }
  | { kind: 'phase'; phase: StreamPhase }
  | { kind: 'hello' };

const TOPICS_PATH = '/api/stream?topics=sessions,approvals,counts';

function isSessionHint(value: unknown): value is SessionHint {
  return isRecord(value) && typeof value['id'] === 'string' && typeof value['status'] === 'string';
}

/** A message of the stream as a hint; null for what this version does not know. */
export function readHint(event: string, data: string): Hint | null {
  if (event === 'reset') return { topic: 'reset' };
  if (event !== 'sessions' && event !== 'approvals' && event !== 'counts') return null;
  let body: unknown;
  try {
    body = JSON.parse(data);
  } catch {
    return null;
  }
  if (!isRecord(body)) return null;
  if (event !== 'sessions') return { topic: event, data: body };
  const sessions = Array.isArray(body['sessions']) ? body['sessions'].filter(isSessionHint) : [];
  return { topic: 'sessions', sessions };
}

export class HintFeed {
  #phase: StreamPhase = 'connecting';
  #cursor: string | undefined;
  #isLeader = false;
  #running: AbortController | undefined;
  #bus: BroadcastChannel | undefined;
  readonly #hearers = new Set<(hint: Hint) => void>();
  readonly #phaseListeners = new Set<() => void>();
  readonly #client: SederuntClient;
  /** Tabs share a stream only if they have the same server and the same scope. */
  readonly #name: string;

  constructor(client: SederuntClient, scope: string) {
    this.#client = client;
    this.#name = `sederunt:hints:${client.baseUrl}:${scope}`;
  }

  /** Calls `hearer` for each hint; the stream is open while there is one. */
  hear(hearer: (hint: Hint) => void): () => void {
    this.#hearers.add(hearer);
    if (this.#running === undefined) this.#start();
    return () => {
      this.#hearers.delete(hearer);
      queueMicrotask(() => {
        if (this.#hearers.size === 0) this.#stop();
      });
    };
  }

  readonly phase = (): StreamPhase => this.#phase;

  readonly subscribePhase = (listener: () => void): (() => void) => {
    this.#phaseListeners.add(listener);
    return () => this.#phaseListeners.delete(listener);
  };

  #start(): void {
    const running = new AbortController();
    this.#running = running;
    const locks = typeof navigator === 'undefined' ? undefined : navigator.locks;
    if (locks === undefined || typeof BroadcastChannel === 'undefined') {
      this.#readWhileVisible(running.signal);
      return;
    }
    this.#bus = new BroadcastChannel(this.#name);
    this.#bus.onmessage = (message: MessageEvent<TabMessage>) => this.#hearTab(message.data);
    this.#post({ kind: 'hello' });
    locks
      .request(this.#name, { signal: running.signal }, () => this.#lead(running.signal))
      .catch(() => {
        // The request for the lock was given up, because no component listens any more.
      });
  }

  #stop(): void {
    this.#running?.abort();
    this.#running = undefined;
    this.#isLeader = false;
    this.#bus?.close();
    this.#bus = undefined;
    this.#phase = 'connecting';
  }

  #lead(signal: AbortSignal): Promise<void> {
    this.#isLeader = true;
    return new Promise((resolve) => {
      const stop = this.#follow();
      signal.addEventListener('abort', () => {
        stop();
        resolve();
      });
    });
  }

  #readWhileVisible(signal: AbortSignal): void {
    let stop: (() => void) | undefined;
    const follow = () => {
      if (isHidden()) {
        stop?.();
        stop = undefined;
        this.#setPhase('paused');
      } else {
        stop ??= this.#follow();
      }
    };
    document.addEventListener('visibilitychange', follow);
    signal.addEventListener('abort', () => {
      document.removeEventListener('visibilitychange', follow);
      stop?.();
    });
    follow();
  }

  #follow(): () => void {
    return followStream({
      client: this.#client,
      path: () => TOPICS_PATH,
      lastId: () => this.#cursor,
      onMessage: (message) => {
        const hint = readHint(message.event, message.data);
        if (hint === null) return;
        this.#post({ kind: 'hint', id: message.id, hint });
        this.#takeHint(message.id, hint);
      },
      onPhase: (phase) => {
        this.#post({ kind: 'phase', phase });
        this.#setPhase(phase);
      },
    });
  }

  #post(message: TabMessage): void {
    this.#bus?.postMessage(message);
  }

  #hearTab(message: TabMessage): void {
    if (message.kind === 'hint') this.#takeHint(message.id, message.hint);
    else if (message.kind === 'phase') this.#setPhase(message.phase);
    else if (this.#isLeader) this.#post({ kind: 'phase', phase: this.#phase });
  }

  #takeHint(id: string | undefined, hint: Hint): void {
    this.#cursor = id ?? this.#cursor;
    for (const hearer of this.#hearers) hearer(hint);
  }

  #setPhase(phase: StreamPhase): void {
    if (phase === this.#phase) return;
    this.#phase = phase;
    for (const listener of this.#phaseListeners) listener();
  }
}
