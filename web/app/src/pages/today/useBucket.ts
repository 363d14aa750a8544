/** The lines of one bucket of the work queue, read again by hints. */
import { type components, type Hint, useHintRefetch, useSederuntClient, type WorkQueueBucket } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { bucketQueryKey } from '../../data/queryKeys.js';

export type QueueItem = components['schemas']['QueueItem'];

export const BUCKET_ROWS_MAX = 50;
const NO_ITEMS: readonly QueueItem[] = [];

function concernsQueue(hint: Hint): boolean {
  if (hint.topic === 'sessions') return hint.sessions.some((one) => one.row_changed || one.deleted);
  return hint.topic === 'counts' || hint.topic === 'approvals';
}

export function useBucket(bucket: WorkQueueBucket) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = bucketQueryKey(bucket, BUCKET_ROWS_MAX);
  const query = useQuery({
    queryKey: [...queryKey, 'rows'],
    queryFn: ({ signal }) =>
      client.get('/api/today/{bucket}', {
        path: { bucket },
        query: { limit: BUCKET_ROWS_MAX, tz: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC' },
        signal,
      }),
  });
  useHintRefetch(concernsQueue, () => void queries.invalidateQueries({ queryKey }));
  return {
    items: query.data?.items ?? NO_ITEMS,
    hasMore: typeof query.data?.next_cursor === 'string',
    isLoading: query.isLoading,
    error: query.error,
    refetch: () => void query.refetch(),
  };
}

export type Bucket = ReturnType<typeof useBucket>;
