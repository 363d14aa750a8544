/**
 * Records where a person goes while a human session runs: pages and entities, nothing else. Keeps what could not be sent,
 * sends each batch under one key so that a repetition has one effect, and drops what the server refuses for good.
 */
import type { DraftEvent } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { isRefusal } from '../client/refusal.js';
import { barePath, extractEntityRefFromPath } from '../vocabulary/entityPath.js';

const FLUSH_MS = 5_000;
/** What the server takes at once. */
const BATCH_EVENTS_MAX = 100;
/** Browsers send at most 64 KiB by calls that outlive the page. */
const KEEPALIVE_BYTES_MAX = 60_000;
const PATHNAME_CHARS_MAX = 512;
/** While the server is away, the oldest visits beyond this many are forgotten. */
const WAITING_EVENTS_MAX = 1_000;

interface ActivityBatch {
  readonly key: string;
  readonly events: readonly DraftEvent[];
}

/** Whether the batch may be taken later: no answer, signed out, too many calls, or a fault of the server. */
function isKept(error: unknown): boolean {
  if (!isRefusal(error)) return true;
  return error.status === 0 || error.status === 401 || error.status === 429 || error.status >= 500;
}

function isRecordable(path: string): boolean {
  if (!path.startsWith('/') || [...path].length > PATHNAME_CHARS_MAX) return false;
  return !/\p{Cc}/u.test(path);
}

export class ActivityRecorder {
  #waiting: DraftEvent[] = [];
  #batches: ActivityBatch[] = [];
  #isSending = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastPath: string | undefined;
  readonly #seenEntities = new Set<string>();
  readonly #client: SederuntClient;
  readonly #sessionId: string;

  constructor(client: SederuntClient, sessionId: string) {
    this.#client = client;
    this.#sessionId = sessionId;
  }

  /** The person is on this page now. */
  visit(pathname: string): void {
    const path = barePath(pathname);
    if (path === this.#lastPath) return;
    this.#lastPath = path;
    if (!isRecordable(path)) return;
    const at = new Date().toISOString();
    this.#waiting.push({ type: 'human.navigate', metadata: { pathname: path, at } });
    const entity = extractEntityRefFromPath(path);
    if (entity !== null && !this.#seenEntities.has(entity.entityId)) {
      this.#seenEntities.add(entity.entityId);
      const metadata = { entity_id: entity.entityId, entity_type: entity.entityType, pathname: path, at };
      this.#waiting.push({ type: 'human.entity_view', metadata });
    }
    if (this.#waiting.length > WAITING_EVENTS_MAX) this.#waiting = this.#waiting.slice(-WAITING_EVENTS_MAX);
    this.#schedule();
  }

  /** Sends what waits, one batch after the other, until nothing waits or a batch must be kept. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      for (;;) {
        this.#formBatches(1);
        const [batch] = this.#batches;
        if (batch === undefined || !(await this.#send(batch, false))) break;
      }
    } finally {
      this.#isSending = false;
      if (this.#batches.length > 0) this.#schedule();
    }
  }

  /**
   * The page may go away: sends what waits by calls that outlive it. A batch that is under way is sent again, under the same
   * key, because its call may die with the page.
   */
  flushForGood(): void {
    this.#formBatches(WAITING_EVENTS_MAX);
    let bytes = 0;
    for (const batch of [...this.#batches]) {
      bytes += JSON.stringify(batch.events).length;
      if (bytes > KEEPALIVE_BYTES_MAX) break;
      void this.#send(batch, true);
    }
    if (this.#batches.length > 0) this.#schedule();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS);
  }

  /** Puts waiting events into batches until there are so many. */
  #formBatches(most: number): void {
    while (this.#waiting.length > 0 && this.#batches.length < most) {
      this.#batches.push({ key: newIdempotencyKey(), events: this.#waiting.splice(0, BATCH_EVENTS_MAX) });
    }
  }

  /** True once the batch needs no further call: it was taken, or refused for good. */
  async #send(batch: ActivityBatch, keepalive: boolean): Promise<boolean> {
    try {
      await this.#client.post('/api/sessions/{id}/events', {
        path: { id: this.#sessionId },
        body: { events: [...batch.events] },
        idempotencyKey: batch.key,
        keepalive,
      });
    } catch (error) {
      if (isKept(error)) return false;
    }
    this.#batches = this.#batches.filter((other) => other !== batch);
    return true;
  }
}
