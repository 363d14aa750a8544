/** The sessions about an entity, newest first. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { EntitySession } from '../api/types.js';
import { isRefusal, passingRetryDelay, retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import type { SessionHint } from '../stream/hintFeed.js';
import { type EntitySessionsKeyOptions, entitySessionsQueryKey } from '../vocabulary/queryKeys.js';
import { isValidSessionStatus } from '../vocabulary/status.js';
import { useHintRefetch, useHints } from './useHints.js';

const STALE_MS = 10_000;

export interface UseEntitySessionsOptions extends EntitySessionsKeyOptions {
  staleTime?: number | undefined;
  enabled?: boolean | undefined;
}

export interface EntitySessionsResult {
  sessions: readonly EntitySession[];
  isLoading: boolean;
  error: Error | null;
  refetch: () => Promise<unknown>;
}

const NONE: readonly EntitySession[] = [];

/** The rows with the statuses of the hints, so that a list shows them before it is read again. */
function withHints(rows: readonly EntitySession[], hints: readonly SessionHint[]): readonly EntitySession[] {
  const byId = new Map(hints.map((hint) => [hint.id, hint]));
  if (!rows.some((row) => byId.has(row.id))) return rows;
  return rows.flatMap((row) => {
    const hint = byId.get(row.id);
    if (hint?.deleted === true) return [];
    return hint !== undefined && isValidSessionStatus(hint.status) ? [{ ...row, status: hint.status }] : [row];
  });
}

/** Signed out, the list is empty, so that pages of entities need not handle that. `onUnauthorized` is called all the same. */
export function useEntitySessions(entityId: string, options: UseEntitySessionsOptions = {}): EntitySessionsResult {
  const { includeChildren = false, limit = 20, staleTime = STALE_MS, enabled = true } = options;
  const { client } = useSederunt();
  const queries = useQueryClient();
  const queryKey = entitySessionsQueryKey(entityId, { includeChildren, limit });

  const query = useQuery<readonly EntitySession[]>({
    queryKey,
    queryFn: async ({ signal }) => {
      try {
        const page = await client.get('/api/entities/{id}/sessions', {
          path: { id: entityId },
          query: { include_children: includeChildren, limit },
          signal,
        });
        return page.items;
      } catch (error) {
        if (isRefusal(error) && error.status === 401) return NONE;
        throw error;
      }
    },
    staleTime,
    enabled,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
  });

  useHints((hint) => {
    if (hint.topic !== 'sessions') return;
    queries.setQueryData<readonly EntitySession[]>(queryKey, (rows) => rows && withHints(rows, hint.sessions));
  });
  useHintRefetch(
    (hint) => hint.topic === 'sessions' && hint.sessions.some((session) => session.row_changed),
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );

  return { sessions: query.data ?? NONE, isLoading: query.isLoading, error: query.error, refetch: query.refetch };
}
