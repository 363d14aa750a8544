/** The feeds of a page, one for each session that is shown. */
import type { QueryClient } from '@tanstack/react-query';
import type { SederuntClient } from '../client/client.js';
import { SessionFeed } from './sessionFeed.js';

/** Beyond this many, feeds without a listener are forgotten. */
const FEEDS_MAX = 200;

export class SessionFeeds {
  readonly #feeds = new Map<string, SessionFeed>();
  readonly #client: SederuntClient;
  readonly #queries: QueryClient;

  constructor(client: SederuntClient, queries: QueryClient) {
    this.#client = client;
    this.#queries = queries;
  }

  get(sessionId: string): SessionFeed {
    const known = this.#feeds.get(sessionId);
    if (known !== undefined) return known;
    const feed = new SessionFeed(this.#client, this.#queries, sessionId);
    if (this.#feeds.size >= FEEDS_MAX) this.#forgetIdle();
    this.#feeds.set(sessionId, feed);
    return feed;
  }

  #forgetIdle(): void {
    for (const [sessionId, feed] of this.#feeds) if (feed.isIdle) this.#feeds.delete(sessionId);
  }
}
