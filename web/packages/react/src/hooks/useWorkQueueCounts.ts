/** How much needs me, runs, waits to be handed over, failed, and was done today. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { WorkQueueCounts } from '../api/types.js';
import { passingRetryDelay, retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { workQueueCountsQueryKey } from '../vocabulary/queryKeys.js';
import { useHintRefetch } from './useHints.js';

/** Hints keep the counts fresh; this is for browsers that have lost their stream. */
const STALE_MS = 30_000;

export interface WorkQueueCountsResult {
  counts: WorkQueueCounts | undefined;
  isLoading: boolean;
  error: Error | null;
  refetch: () => Promise<unknown>;
}

function localTimeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/** `timeZone` says when today began; left out, it is the browser's. */
export function useWorkQueueCounts(options: { timeZone?: string | undefined } = {}): WorkQueueCountsResult {
  const timeZone = options.timeZone ?? localTimeZone();
  const { client } = useSederunt();
  const queries = useQueryClient();
  const queryKey = workQueueCountsQueryKey(timeZone);
  const query = useQuery<WorkQueueCounts>({
    queryKey,
    queryFn: ({ signal }) => client.get('/api/today/work-queue-counts', { query: { tz: timeZone }, signal }),
    staleTime: STALE_MS,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
  });
  useHintRefetch(
    (hint) => hint.topic === 'counts',
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  return { counts: query.data, isLoading: query.isLoading, error: query.error, refetch: query.refetch };
}
