/** The log as it is stored, by pages of JSON, and the row before it. */
import { type EventPage, type Session, useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../components/Button.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Section } from '../../components/Section.js';
import { Skeleton } from '../../components/Skeleton.js';
import { rawEventsQueryKey } from '../../data/queryKeys.js';
import { JsonText } from './JsonText.js';

const PAGE_SIZE = 50;

function EventsPage({ id, after }: { id: string; after: number }) {
  const client = useSederuntClient();
  const { data, error, refetch } = useQuery<EventPage>({
    queryKey: rawEventsQueryKey(id, after),
    queryFn: ({ signal }) =>
      client.get('/api/sessions/{id}/events', {
        path: { id },
        query: { order: 'asc', limit: PAGE_SIZE, after_sequence: after },
        signal,
      }),
    staleTime: 0,
  });
  if (error !== null && data === undefined) return <ErrorState error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton />;
  return data.events.length === 0 ? (
    <p className="text-row text-soft">No events here.</p>
  ) : (
    <JsonText value={data.events} />
  );
}

export function RawTab({ row, onDownload }: { row: Session; onDownload: () => void }) {
  // Rows can have been removed from a log, so pages are told by sequence and not by count.
  const [after, setAfter] = useState(0);
  const isLast = after + PAGE_SIZE >= row.last_sequence;
  const last = Math.floor(Math.max(0, row.last_sequence - 1) / PAGE_SIZE) * PAGE_SIZE;
  return (
    <div className="grid min-w-0 gap-4">
      <Section
        title={`Events #${after + 1} to #${Math.min(after + PAGE_SIZE, row.last_sequence)} of ${row.last_sequence.toLocaleString()}`}
        actions={
          <>
            <Button disabled={after === 0} onClick={() => setAfter(Math.max(0, after - PAGE_SIZE))}>
              Earlier
            </Button>
            <Button disabled={isLast} onClick={() => setAfter(after + PAGE_SIZE)}>
              Later
            </Button>
            <Button disabled={isLast} onClick={() => setAfter(last)}>
              Newest
            </Button>
            <Button onClick={onDownload}>Download all</Button>
          </>
        }
      >
        <EventsPage id={row.id} after={after} />
      </Section>
      <Section title="Session">
        <JsonText value={row} />
      </Section>
    </div>
  );
}
