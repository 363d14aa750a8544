/** How long what was read counts as fresh, and what is asked again. */
import { passingRetryDelay, retryPassing } from '@sederunt/react';
import { QueryClient } from '@tanstack/react-query';

/** For lists that hints keep fresh. */
export const LIST_STALE_MS = 30_000;

export function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: LIST_STALE_MS,
        refetchOnWindowFocus: false,
        retry: retryPassing,
        retryDelay: passingRetryDelay,
      },
      mutations: { retry: false },
    },
  });
}
