/** The row of one session, kept fresh by hints, and whether it was deleted while the page was open. */
import {
  isRefusal,
  isValidSessionStatus,
  type Session,
  useHintRefetch,
  useHints,
  useSederuntClient,
} from '@sederunt/react';
import { type InfiniteData, type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionListQueryKey, sessionQueryKey } from '../../data/queryKeys.js';
import { readSession } from '../../data/readSession.js';
import type { SessionPage } from '../sessions/sessionRows.js';

export interface SessionRow {
  row: Session | undefined;
  isDeleted: boolean;
  error: Error | null;
  refetch: () => void;
}

/** The row as a list has it, so that the page is there with the click. */
function listedRow(queries: QueryClient, id: string): Session | undefined {
  const lists = queries.getQueriesData<InfiniteData<SessionPage>>({ queryKey: sessionListQueryKey() });
  for (const [, list] of lists) {
    const row = list?.pages?.flatMap((page) => page.items).find((one) => one.id === id);
    if (row !== undefined) return row;
  }
  return undefined;
}

export function useSessionRow(id: string): SessionRow {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = sessionQueryKey(id);
  const [wasDeleted, setDeleted] = useState(false);
  const query = useQuery<Session>({
    queryKey,
    queryFn: ({ signal }) => readSession(client, id, signal),
    placeholderData: () => listedRow(queries, id),
  });
  useHints((hint) => {
    if (hint.topic !== 'sessions') return;
    const told = hint.sessions.find((one) => one.id === id);
    if (told === undefined) return;
    if (told.deleted) setDeleted(true);
    queries.setQueryData<Session>(queryKey, (row) => {
      if (row === undefined || !isValidSessionStatus(told.status)) return row;
      return { ...row, status: told.status, last_sequence: Math.max(row.last_sequence, told.last_sequence) };
    });
  });
  useHintRefetch(
    (hint) =>
      hint.topic === 'sessions' && hint.sessions.some((one) => one.id === id && one.row_changed && !one.deleted),
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  // A row that was there and is no longer found has been deleted, even if its hint was missed.
  const isMissed = query.data !== undefined && isRefusal(query.error) && query.error.status === 404;
  return {
    row: query.data,
    isDeleted: wasDeleted || isMissed,
    error: query.error,
    refetch: () => void query.refetch(),
  };
}
