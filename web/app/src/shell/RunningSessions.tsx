/** The running sessions of my tasks, up to three, beneath the picker. My own work is left out: the picker shows it. */
import { type Session, useActiveHumanSession, useHintRefetch, useSederuntClient } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { bucketQueryKey } from '../data/queryKeys.js';

const SHOWN_MAX = 3;
/** One more is read, because my own work may be among them. */
const READ_MAX = SHOWN_MAX + 1;

export function RunningSessions() {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const { session: mine } = useActiveHumanSession();
  const queryKey = bucketQueryKey('running', READ_MAX);
  const { data } = useQuery<readonly { session: Session; name: string }[]>({
    queryKey,
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/today/{bucket}', {
        path: { bucket: 'running' },
        query: { limit: READ_MAX },
        signal,
      });
      return page.items.flatMap(({ session, task }) =>
        session ? [{ session: session as Session, name: task?.name ?? session.title ?? session.id }] : [],
      );
    },
    staleTime: 30_000,
  });
  useHintRefetch(
    (hint) => hint.topic === 'counts' || (hint.topic === 'sessions' && hint.sessions.some((one) => one.row_changed)),
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  const shown = (data ?? []).filter(({ session }) => session.id !== mine?.id).slice(0, SHOWN_MAX);
  if (shown.length === 0) return null;
  return (
    <ul aria-label="Running on my tasks" className="grid">
      {shown.map(({ session, name }) => (
        <li key={session.id}>
          <Link
            href={`/sessions/${encodeURIComponent(session.id)}`}
            className="flex min-h-7 items-center gap-2 rounded-control px-2 text-row text-soft hover:bg-sunken hover:text-ink"
          >
            <span aria-hidden="true" className="breathing text-running">
              ●
            </span>
            <span dir="auto" className="truncate">
              {name}
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
