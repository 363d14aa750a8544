/** Keeps a session live: opens its stream, which all components that show the session share. */
import { useEffect, useSyncExternalStore } from 'react';
import { useSederunt } from '../context.js';
import type { FeedReader, FeedState, SessionFeed } from '../stream/sessionFeed.js';
import { IDLE_FEED_STATE } from '../stream/sessionFeed.js';

const NO_SUBSCRIPTION = () => () => undefined;
const idle = () => IDLE_FEED_STATE;

/** What the stream of a session says about itself. Events go into `useSessionEvents`. */
export type SessionRealtime = Pick<FeedState, 'phase' | 'delta' | 'isReady' | 'refusal'>;

function useFeed(sessionId: string | null): SessionFeed | null {
  const { feeds } = useSederunt();
  return sessionId === null ? null : feeds.get(sessionId);
}

export function useFeedState(sessionId: string | null): FeedState {
  const feed = useFeed(sessionId);
  return useSyncExternalStore(feed?.subscribe ?? NO_SUBSCRIPTION, feed?.state ?? idle, idle);
}

/** Calls the reader with each live event. The reader must keep its identity. */
export function useFeedReader(sessionId: string, reader: FeedReader): void {
  const feed = useFeed(sessionId);
  useEffect(() => feed?.read(reader), [feed, reader]);
}

/** Asks the session's stream for presence. */
export function usePresenceWish(sessionId: string): void {
  const feed = useFeed(sessionId);
  useEffect(() => feed?.wantPresence(), [feed]);
}

/** Follows a session; null follows nothing. */
export function useSessionRealtime(sessionId: string | null): SessionRealtime {
  return useFeedState(sessionId);
}
