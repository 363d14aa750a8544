/** Messages that have the words, newest first. Each leads to its place in the transcript. */
import { useSederuntClient } from '@sederunt/react';
import { type InfiniteData, useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Link, useLocation } from 'wouter';
import { Button } from '../../components/Button.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { messageHitsQueryKey } from '../../data/queryKeys.js';
import { useListCursor } from '../../keyboard/useListCursor.js';
import { sessionAddress, sessionName } from './sessionName.js';

const PAGE_SIZE = 50;

/** A match. Older servers tell nothing of its session but the id. */
interface Hit {
  session_id: string;
  sequence?: number | null;
  snippet: string;
  title?: string | null;
  status?: string;
  last_activity_at?: string;
}

interface HitPage {
  items: readonly Hit[];
  next_cursor?: string | null;
}

function hitKey(hit: Hit): string {
  return `${hit.session_id}#${hit.sequence ?? ''}`;
}

function hitAddress(hit: Hit): string {
  return sessionAddress(hit.session_id, hit.sequence);
}

/** A page may begin with a hit that the page before it ended with. */
function hitsOnce(pages: readonly HitPage[]): readonly Hit[] {
  const byKey = new Map<string, Hit>();
  for (const page of pages) for (const hit of page.items) byKey.set(hitKey(hit), byKey.get(hitKey(hit)) ?? hit);
  return [...byKey.values()];
}

export function MessageHits({ words }: { words: string }) {
  const client = useSederuntClient();
  const [, navigate] = useLocation();
  const search = useInfiniteQuery<HitPage, Error, InfiniteData<HitPage>, readonly unknown[], string | undefined>({
    queryKey: messageHitsQueryKey(words),
    queryFn: ({ pageParam, signal }) =>
      client.json<HitPage>('/api/search', { query: { q: words, limit: PAGE_SIZE, cursor: pageParam }, signal }),
    initialPageParam: undefined,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    enabled: words !== '',
  });
  const hits = useMemo(() => hitsOnce(search.data?.pages ?? []), [search.data]);
  const byKey = useMemo(() => new Map(hits.map((hit) => [hitKey(hit), hit])), [hits]);
  const cursor = useListCursor([...byKey.keys()], (key) => {
    const hit = byKey.get(key);
    if (hit !== undefined) navigate(hitAddress(hit));
  });

  if (words === '') return <EmptyState>Type words to find them in every message.</EmptyState>;
  if (search.error !== null && hits.length === 0) {
    return <ErrorState error={search.error} onRetry={() => void search.refetch()} />;
  }
  if (search.isLoading) return <Skeleton rows={8} />;
  if (hits.length === 0) return <EmptyState>No message has these words. Try fewer.</EmptyState>;
  return (
    <>
      <ul aria-label="Messages" className="divide-y divide-line rounded-card border border-line bg-raised">
        {hits.map((hit) => {
          const { ref, ...rowProps } = cursor.rowProps(hitKey(hit));
          return (
            <li key={hitKey(hit)}>
              <Link
                href={hitAddress(hit)}
                data-row=""
                {...rowProps}
                ref={ref}
                className="grid gap-1 rounded-control px-3 py-2 text-row hover:bg-sunken data-[current=true]:bg-sunken"
              >
                <span dir="auto" className="line-clamp-2 wrap-anywhere">
                  {hit.snippet}
                </span>
                <span className="flex items-center gap-3 text-meta text-soft">
                  {hit.status !== undefined && <StatusBadge status={hit.status} />}
                  <span dir="auto" className="truncate">
                    {sessionName({ id: hit.session_id, title: hit.title })}
                  </span>
                  <span className="figures">
                    {hit.sequence === null || hit.sequence === undefined ? 'title' : `#${hit.sequence}`}
                  </span>
                  <TimeAgo at={hit.last_activity_at} className="ml-auto" />
                </span>
              </Link>
            </li>
          );
        })}
      </ul>
      {search.error !== null && (
        <ErrorState
          error={search.error}
          onRetry={() => void (search.isFetchNextPageError ? search.fetchNextPage() : search.refetch())}
        />
      )}
      {search.hasNextPage && (
        <div className="flex justify-center py-3">
          <Button kind="ghost" isBusy={search.isFetchingNextPage} onClick={() => void search.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}
