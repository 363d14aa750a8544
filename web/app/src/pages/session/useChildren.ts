/** The sessions that a session has started: its steps. Kept fresh by hints. */
import { type Session, useHintRefetch, useSederuntClient } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { sessionChildrenQueryKey } from '../../data/queryKeys.js';

const PAGE_SIZE = 100;
/** A run has at most 300 sessions in all. */
const PAGES_MAX = 3;

/** A child's place in the graph of steps. Servers that are older than this page do not tell it. */
export interface StepPlace {
  key: string;
  name?: string | null;
  depends_on: readonly string[];
}

export type ChildSession = Session & { step?: StepPlace | null };

interface ChildPage {
  items: readonly ChildSession[];
  next_cursor?: string | null;
}

export function useChildren(id: string) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = sessionChildrenQueryKey(id);
  const query = useQuery<readonly ChildSession[]>({
    queryKey,
    queryFn: async ({ signal }) => {
      const children: ChildSession[] = [];
      let cursor: string | undefined;
      for (let pages = 0; pages < PAGES_MAX; pages += 1) {
        const path = `/api/sessions/${encodeURIComponent(id)}/children`;
        const page = await client.json<ChildPage>(path, { query: { limit: PAGE_SIZE, cursor }, signal });
        children.push(...page.items);
        cursor = page.next_cursor ?? undefined;
        if (cursor === undefined) break;
      }
      return children;
    },
  });
  useHintRefetch(
    (hint) => {
      if (hint.topic !== 'sessions') return false;
      const ids = new Set([id, ...(query.data ?? []).map((child) => child.id)]);
      return hint.sessions.some((one) => one.row_changed && ids.has(one.id));
    },
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  return query;
}
