/** The list of sessions by pages, kept fresh by hints. New rows wait while they would move what the person looks at. */
import { type Session, useHintRefetch, useHints, useSederuntClient } from '@sederunt/react';
import { type InfiniteData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { sessionListQueryKey } from '../../data/queryKeys.js';
import type { ListQuery } from './filters.js';
import { rowsOnce, type SessionPage, withFresh, withHints, withOnTop } from './sessionRows.js';

const PAGE_SIZE = 50;
/** The server reads so many by their ids at once. */
const IDS_MAX = 100;

type Pages = InfiniteData<SessionPage, string | undefined>;

export interface SessionList {
  rows: readonly Session[];
  /** How many new rows wait to be shown. */
  waiting: number;
  showWaiting: () => void;
  isLoading: boolean;
  error: Error | null;
  refetch: () => void;
  hasMore: boolean;
  isFetchingMore: boolean;
  fetchMore: () => void;
}

/** What has changed since the rows were last read. */
interface Changed {
  ids: Set<string>;
  all: boolean;
}

/** `mayMove` says whether rows may be put on top now. */
export function useSessionList(query: ListQuery, mayMove: () => boolean): SessionList {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = useMemo(() => sessionListQueryKey(query), [query]);
  const changed = useRef<Changed>({ ids: new Set(), all: false });
  const [waiting, setWaiting] = useState<readonly Session[]>([]);
  const latest = useRef({ queryKey, waiting });
  latest.current = { queryKey, waiting };

  const list = useInfiniteQuery<SessionPage, Error, Pages, readonly unknown[], string | undefined>({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      client.json<SessionPage>('/api/sessions', { query: { ...query, limit: PAGE_SIZE, cursor: pageParam }, signal }),
    initialPageParam: undefined,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });

  // Another list has other rows to wait.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is what the list is of.
  useEffect(() => {
    changed.current = { ids: new Set(), all: false };
    setWaiting([]);
  }, [queryKey]);

  const change = (how: (pages: readonly SessionPage[]) => readonly SessionPage[]) =>
    queries.setQueryData<Pages>(queryKey, (data) => {
      if (data === undefined) return data;
      const pages = how(data.pages);
      return pages === data.pages ? data : { ...data, pages: [...pages] };
    });

  const readByIds = (ids: readonly string[]) =>
    client.json<SessionPage>('/api/sessions', { query: { ...query, limit: IDS_MAX, ids: ids.join(',') } });

  const takeFresh = (fresh: readonly Session[]) => {
    const data = queries.getQueryData<Pages>(queryKey);
    if (data === undefined || latest.current.queryKey !== queryKey) return;
    const { pages, unknown } = withFresh(data.pages, fresh);
    const ids = new Set(unknown.map((row) => row.id));
    const all = [...unknown, ...latest.current.waiting.filter((row) => !ids.has(row.id))];
    const isShown = all.length > 0 && mayMove();
    change(() => (isShown ? withOnTop(pages, all) : pages));
    setWaiting(isShown ? [] : all);
  };

  useHints((hint) => {
    if (hint.topic === 'reset') changed.current.all = true;
    if (hint.topic !== 'sessions') return;
    for (const { id, deleted } of hint.sessions) {
      if (!deleted) changed.current.ids.add(id);
    }
    const gone = new Set(hint.sessions.flatMap((one) => (one.deleted ? [one.id] : [])));
    change((pages) => withHints(pages, hint.sessions));
    if (gone.size > 0) setWaiting((before) => before.filter((row) => !gone.has(row.id)));
  });

  useHintRefetch(
    (hint) => hint.topic === 'sessions',
    () => {
      const { ids, all } = changed.current;
      changed.current = { ids: new Set(), all: false };
      if (all || ids.size > IDS_MAX) {
        void queries.invalidateQueries({ queryKey, exact: true });
      } else if (ids.size > 0) {
        readByIds([...ids]).then(
          (page) => takeFresh(page.items),
          // The rows keep what the hints said; the next hint reads again.
          () => undefined,
        );
      }
    },
  );

  const rows = useMemo(() => rowsOnce(list.data?.pages ?? []), [list.data]);
  const known = new Set(rows.map((row) => row.id));
  const stillWaiting = waiting.filter((row) => !known.has(row.id));
  return {
    rows,
    waiting: stillWaiting.length,
    showWaiting: () => {
      change((pages) => withOnTop(pages, stillWaiting));
      setWaiting([]);
    },
    isLoading: list.isLoading,
    error: list.error,
    refetch: () => void (list.isFetchNextPageError ? list.fetchNextPage() : list.refetch()),
    hasMore: list.hasNextPage,
    isFetchingMore: list.isFetchingNextPage,
    fetchMore: () => void list.fetchNextPage(),
  };
}
