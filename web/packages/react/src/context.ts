/** How hooks reach what the provider holds. */
import { createContext, useContext } from 'react';
import type { SederuntClient } from './client/client.js';
import type { SessionFeeds } from './stream/feeds.js';
import type { HintFeed } from './stream/hintFeed.js';

export interface SederuntContextValue {
  readonly client: SederuntClient;
  readonly feeds: SessionFeeds;
  readonly hints: HintFeed;
  /** Undefined: the path is read from the browser's history. */
  readonly pathname: string | undefined;
}

export const SederuntContext = createContext<SederuntContextValue | null>(null);

export function useSederunt(): SederuntContextValue {
  const value = useContext(SederuntContext);
  if (value === null) throw new Error('Put <SederuntProvider> around this component, inside of <QueryClientProvider>.');
  return value;
}

/** The client of the nearest provider, for calls that have no hook. */
export function useSederuntClient(): SederuntClient {
  return useSederunt().client;
}
