/** One page: what I work on, the work queue, the sessions of the server, and the live transcript of the one that is picked. */
import {
  ActivityRecorderMount,
  type Session,
  SessionStatusBadge,
  SessionTranscript,
  useHintRefetch,
  useSederuntClient,
  useWorkQueueCounts,
  WorkingOnPicker,
  WorkQueueCommandStrip,
} from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

function useNewestSessions() {
  const client = useSederuntClient();
  const query = useQuery<readonly Session[]>({
    queryKey: ['sessions', 'newest'],
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/sessions', { query: { limit: 20 }, signal });
      return page.items.filter((row): row is Session => 'session_type' in row);
    },
  });
  useHintRefetch(
    (hint) => hint.topic === 'sessions',
    () => void query.refetch(),
  );
  return query;
}

export function Page() {
  const { counts } = useWorkQueueCounts();
  const sessions = useNewestSessions();
  const [picked, setPicked] = useState<string | null>(null);
  const [bucket, setBucket] = useState<string | null>(null);
  return (
    <main>
      <h1>Sederunt in React</h1>
      <ActivityRecorderMount />
      <WorkingOnPicker />
      <WorkQueueCommandStrip counts={counts} onPick={setBucket} />
      {bucket !== null && <p>You picked {bucket.replaceAll('_', ' ')}.</p>}
      <h2>Sessions</h2>
      {sessions.error !== null && <p role="alert">{sessions.error.message}</p>}
      <ul>
        {(sessions.data ?? []).map((session) => (
          <li key={session.id}>
            <SessionStatusBadge status={session.status} />{' '}
            <button type="button" onClick={() => setPicked(session.id)}>
              {session.title ?? session.id}
            </button>
          </li>
        ))}
      </ul>
      {picked !== null && <SessionTranscript key={picked} sessionId={picked} height="60vh" />}
    </main>
  );
}
