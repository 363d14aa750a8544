/** The sessions that fit the filters, newest activity first, by pages. */
import type { Session } from '@sederunt/react';
import { useEffect, useMemo, useRef } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../../components/Button.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { List, ListRow } from '../../components/ListRow.js';
import { Skeleton } from '../../components/Skeleton.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { useListCursor } from '../../keyboard/useListCursor.js';
import { isFiltered, listQuery, type SessionFilters } from './filters.js';
import { sessionAddress, sessionName } from './sessionName.js';
import { useTaskNames } from './useNames.js';
import { useSessionList } from './useSessionList.js';

function Facts({ row, taskName }: { row: Session; taskName: string | undefined }) {
  const count = row.last_sequence.toLocaleString();
  return (
    <>
      <span dir="auto" className="hidden w-28 truncate wide:inline">
        {row.agent_slug ?? row.user_id ?? ''}
      </span>
      <span dir="auto" className="hidden w-36 truncate wide:inline">
        {taskName ?? ''}
      </span>
      <span className="hidden w-16 truncate wide:inline">{row.source.kind}</span>
      <span className="figures hidden w-20 text-right wide:inline">
        {row.last_sequence === 1 ? '1 event' : `${count} events`}
      </span>
      <TimeAgo at={row.last_activity_at} className="figures w-16 text-right whitespace-nowrap wide:w-24" />
    </>
  );
}

/** Loads the next page when its end comes into sight; the button is there for those who do not scroll, and after a failure. */
function MoreButton({ isBusy, hasFailed, onMore }: { isBusy: boolean; hasFailed: boolean; onMore: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(onMore);
  latest.current = onMore;
  useEffect(() => {
    if (place.current === null || typeof IntersectionObserver === 'undefined' || isBusy || hasFailed) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) latest.current();
      },
      { rootMargin: '400px' },
    );
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [isBusy, hasFailed]);
  return (
    <div ref={place} className="flex justify-center py-3">
      <Button kind="ghost" isBusy={isBusy} onClick={onMore}>
        {isBusy ? 'Loading…' : 'Show more'}
      </Button>
    </div>
  );
}

/** Rows may be put on top while the list is at its top and nothing in it is pointed at or has the focus. */
function isAtRest(list: HTMLElement | null): boolean {
  if (list === null) return true;
  const scroller = list.closest('main');
  const isScrolled = scroller !== null && scroller.scrollTop > 0;
  return !isScrolled && !list.matches(':hover') && !list.contains(document.activeElement);
}

interface SessionListProps {
  filters: SessionFilters;
  onClear: () => void;
}

export function SessionList({ filters, onClear }: SessionListProps) {
  const place = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const taskNames = useTaskNames();
  const query = useMemo(() => listQuery(filters), [filters]);
  const list = useSessionList(query, () => isAtRest(place.current));
  const ids = useMemo(() => list.rows.map((row) => row.id), [list.rows]);
  const cursor = useListCursor(ids, (id) => navigate(sessionAddress(id)));

  if (list.error !== null && list.rows.length === 0) return <ErrorState error={list.error} onRetry={list.refetch} />;
  if (list.isLoading) return <Skeleton rows={12} />;
  const showWaiting = () => {
    list.showWaiting();
    place.current?.closest('main')?.scrollTo({ top: 0 });
  };
  return (
    <div ref={place}>
      <div role="status" className="sticky top-2 z-10 flex h-0 justify-center">
        {list.waiting > 0 && (
          <Button kind="primary" className="h-7 rounded-full shadow-layer" onClick={showWaiting}>
            {list.waiting} new
          </Button>
        )}
      </div>
      {list.rows.length === 0 && !isFiltered(filters) && (
        <EmptyState>No sessions yet. Runs and conversations appear here when they begin.</EmptyState>
      )}
      {list.rows.length === 0 && isFiltered(filters) && (
        <EmptyState action={<Button onClick={onClear}>Clear the filters</Button>}>
          No sessions match. Clear the filters.
        </EmptyState>
      )}
      {list.rows.length > 0 && (
        <List label="Sessions">
          {list.rows.map((row) => (
            <ListRow
              key={row.id}
              id={row.id}
              href={sessionAddress(row.id)}
              cursor={cursor}
              lead={
                <span className="shrink-0 wide:w-34">
                  <StatusBadge status={row.status} />
                </span>
              }
              title={sessionName(row)}
              facts={
                <Facts
                  row={row}
                  taskName={
                    row.task_id === null || row.task_id === undefined
                      ? undefined
                      : (taskNames.get(row.task_id) ?? row.task_id)
                  }
                />
              }
            />
          ))}
        </List>
      )}
      {list.hasMore && (
        <MoreButton isBusy={list.isFetchingMore} hasFailed={list.error !== null} onMore={list.fetchMore} />
      )}
      {list.error !== null && <ErrorState error={list.error} onRetry={list.refetch} />}
    </div>
  );
}
