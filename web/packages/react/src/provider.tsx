/** What all hooks and components share: the client, the feeds of sessions and hints, and where the person is. */
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useMemo, useRef } from 'react';
import { createSederuntClient, type SederuntClientOptions } from './client/client.js';
import { SederuntContext } from './context.js';
import { SessionFeeds } from './stream/feeds.js';
import { HintFeed } from './stream/hintFeed.js';

export interface SederuntProviderProps extends SederuntClientOptions {
  /** The path that the person sees, from your router. Left out: the browser's. */
  pathname?: string | undefined;
  /** Names the signed-in person. Tabs of one browser share a stream only within the same scope. */
  scope?: string | undefined;
  children?: ReactNode;
}

/** Must be inside of React Query's `QueryClientProvider`. */
export function SederuntProvider(props: SederuntProviderProps) {
  const { baseUrl, credentials, pathname, scope, children } = props;
  const queries = useQueryClient();
  // Functions and headers are often written inline and new at each render; they must not make a new client.
  const latest = useRef(props);
  latest.current = props;
  const shared = useMemo(() => {
    const client = createSederuntClient({
      baseUrl,
      credentials,
      headers: async () => {
        const headers = latest.current.headers;
        return (typeof headers === 'function' ? await headers() : headers) ?? {};
      },
      fetch: (input, init) => (latest.current.fetch ?? globalThis.fetch)(input, init),
      onUnauthorized: (refusal) => latest.current.onUnauthorized?.(refusal),
    });
    return { client, feeds: new SessionFeeds(client, queries), hints: new HintFeed(client, scope ?? '') };
  }, [baseUrl, credentials, queries, scope]);
  const value = useMemo(() => ({ ...shared, pathname }), [shared, pathname]);
  return <SederuntContext.Provider value={value}>{children}</SederuntContext.Provider>;
}
