/** Tells a session again and again that this person is there, until they leave. */
import type { SederuntClient } from '../client/client.js';
import { isRefusal } from '../client/refusal.js';
import { isHidden } from '../stream/follow.js';
import { presencePath } from './wire.js';

/** Presence lives for 30 seconds after the last call. */
const RENEW_MS = 12_000;
/** The server takes one change a second. */
const CHANGE_MS_MIN = 1_000;

export class PresenceBeat {
  #state: unknown;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #isOver = false;
  readonly #client: SederuntClient;
  readonly #path: string;

  constructor(client: SederuntClient, sessionId: string) {
    this.#client = client;
    this.#path = presencePath(sessionId);
    document.addEventListener('visibilitychange', this.#onVisibility);
  }

  /** Shows the others this state, as soon as the server takes it. */
  show(state: unknown): void {
    this.#state = state;
    this.#sendIn(Math.max(0, this.#sentAt + CHANGE_MS_MIN - Date.now()));
  }

  leave(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    document.removeEventListener('visibilitychange', this.#onVisibility);
    this.#goAway();
  }

  readonly #onVisibility = () => {
    if (isHidden()) this.#goAway();
    else this.show(this.#state);
  };

  #goAway(): void {
    clearTimeout(this.#timer);
    this.#client.open(this.#path, { method: 'DELETE', keepalive: true }).catch(() => undefined);
  }

  #sendIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#send(), ms);
  }

  async #send(): Promise<void> {
    if (this.#isOver || isHidden()) return;
    this.#sentAt = Date.now();
    this.#sendIn(RENEW_MS);
    try {
      const body = this.#state === undefined ? {} : { state: this.#state };
      await this.#client.json(this.#path, { method: 'PUT', body });
    } catch (error) {
      if (!this.#isOver && isRefusal(error)) this.#afterRefusal(error.status, error.retryAfterMs ?? 0);
    }
  }

  /** A change that came too early is sent again; a person who may not be present stays silent. */
  #afterRefusal(status: number, retryAfterMs: number): void {
    if (status >= 400 && status < 500 && status !== 429) clearTimeout(this.#timer);
    else this.#sendIn(Math.max(retryAfterMs, CHANGE_MS_MIN));
  }
}
