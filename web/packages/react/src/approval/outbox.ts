/**
 * Decisions on their way. Each waits for some seconds in which it can be taken back, then it is sent with the digest of what the
 * person saw. A person who leaves within that time has decided, and the decision is sent.
 */
import type { Approval, Decide } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { isRefusal } from '../client/refusal.js';

/** What a reviewer decides. Edits are named by what they replace. */
export type ApprovalVerdict = Pick<Decide, 'decision' | 'reason' | 'modified_args' | 'modified_output'>;

export interface PendingDecision {
  /** `waiting`: decided, and not sent yet. */
  readonly phase: 'waiting' | 'sending' | 'decided' | 'refused';
  readonly verdict: ApprovalVerdict;
  /** What the person saw when they decided. */
  readonly seen: Approval;
  readonly endsAt: number;
  readonly key: string;
  readonly error: Error | null;
  /** The approval as another person has decided it meanwhile. */
  readonly settled?: Approval | undefined;
}

export interface OutboxEvents {
  onDecided?: ((approval: Approval) => void) | undefined;
  onRefused?: ((decision: PendingDecision & { error: Error }) => void) | undefined;
}

export class DecisionOutbox {
  readonly #client: SederuntClient;
  readonly #events: OutboxEvents;
  readonly #listeners = new Set<() => void>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  #decisions: ReadonlyMap<string, PendingDecision> = new Map();

  constructor(client: SederuntClient, events: OutboxEvents = {}) {
    this.#client = client;
    this.#events = events;
  }

  /** All decisions by the ids of their approvals; a new map after each change. */
  readonly decisions = (): ReadonlyMap<string, PendingDecision> => this.#decisions;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Does nothing while a decision on the same approval is on its way. `undoMs` of 0 sends at once. */
  decide(approval: Approval, verdict: ApprovalVerdict, undoMs: number): void {
    const { id } = approval;
    const phase = this.#decisions.get(id)?.phase;
    if (phase === 'waiting' || phase === 'sending') return;
    const endsAt = Date.now() + undoMs;
    this.#put(id, { phase: 'waiting', verdict, seen: approval, endsAt, key: newIdempotencyKey(), error: null });
    if (undoMs <= 0) void this.#send(id, false);
    else
      this.#timers.set(
        id,
        setTimeout(() => void this.#send(id, false), undoMs),
      );
  }

  /** Takes a decision back that is not sent yet, or forgets one that is over. */
  undo(id: string): void {
    if (this.#decisions.get(id)?.phase === 'sending') return;
    this.#stopTimer(id);
    this.#put(id, undefined);
  }

  /** Sends what waits. `keepalive` lets the calls outlive the page. */
  sendAll(keepalive: boolean): void {
    for (const id of this.#timers.keys()) void this.#send(id, keepalive);
  }

  async #send(id: string, keepalive: boolean): Promise<void> {
    this.#stopTimer(id);
    const decision = this.#decisions.get(id);
    if (decision?.phase !== 'waiting') return;
    this.#put(id, { ...decision, phase: 'sending' });
    try {
      const decided = await this.#client.post('/api/approvals/{id}/decide', {
        path: { id },
        body: { ...decision.verdict, digest: decision.seen.digest },
        idempotencyKey: decision.key,
        keepalive,
      });
      this.#put(id, { ...decision, phase: 'decided' });
      this.#events.onDecided?.(decided);
    } catch (refusal) {
      await this.#refused(id, decision, refusal as Error);
    }
  }

  async #refused(id: string, decision: PendingDecision, error: Error): Promise<void> {
    const isLate = isRefusal(error) && error.code === 'already_decided';
    const settled = isLate
      ? await this.#client.get('/api/approvals/{id}', { path: { id } }).catch(() => undefined)
      : undefined;
    const refused = { ...decision, phase: 'refused' as const, error, settled };
    this.#put(id, refused);
    this.#events.onRefused?.(refused);
  }

  #stopTimer(id: string): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
  }

  #put(id: string, decision: PendingDecision | undefined): void {
    const decisions = new Map(this.#decisions);
    if (decision === undefined) decisions.delete(id);
    else decisions.set(id, decision);
    this.#decisions = decisions;
    for (const listener of this.#listeners) listener();
  }
}
