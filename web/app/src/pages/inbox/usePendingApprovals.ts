/** The approvals that the person can decide, the urgent ones first, with the names of the sessions that ask. */
import { type Approval, type Session, useHintRefetch, useSederuntClient } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { approvalListQueryKey } from '../../data/queryKeys.js';
import { byUrgency } from '../../decisions/approvalWords.js';
import { useUndecided } from '../../decisions/DecisionsProvider.js';
import { sessionTitlesQueryKey } from './queryKeys.js';

const READ_MAX = 100;
const NO_TITLES: Readonly<Record<string, string>> = {};
const NO_APPROVALS: readonly Approval[] = [];

function useSessionTitles(ids: readonly string[]): Readonly<Record<string, string>> {
  const client = useSederuntClient();
  const { data } = useQuery({
    queryKey: sessionTitlesQueryKey(ids),
    queryFn: async ({ signal }) => {
      const query = { ids: ids.join(','), limit: READ_MAX };
      const page = await client.json<{ items: readonly Session[] }>('/api/sessions', { query, signal });
      return Object.fromEntries(page.items.map(({ id, title }) => [id, title ?? '']));
    },
    enabled: ids.length > 0,
    // The titles only help to tell rows apart: without them, rows say what is staged.
    retry: false,
    placeholderData: (before) => before,
  });
  return data ?? NO_TITLES;
}

export function usePendingApprovals(whose: 'mine' | 'all') {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = approvalListQueryKey({ state: 'pending', whose });
  const list = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const query = { state: 'pending' as const, limit: READ_MAX, ...(whose === 'mine' ? { mine: true } : {}) };
      return client.get('/api/approvals', { query, signal });
    },
  });
  useHintRefetch(
    (hint) => hint.topic === 'approvals',
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  const inOrder = useMemo(() => [...(list.data?.items ?? NO_APPROVALS)].sort(byUrgency(Date.now())), [list.data]);
  const approvals = useUndecided(inOrder, (approval) => approval);
  const sessionIds = useMemo(() => [...new Set(inOrder.map((approval) => approval.session_id))].sort(), [inOrder]);
  const titles = useSessionTitles(sessionIds);
  return {
    approvals,
    titles,
    isLoading: list.isLoading,
    error: list.error,
    hasMore: list.data?.next_cursor !== null && list.data !== undefined,
    refetch: () => void list.refetch(),
  };
}
