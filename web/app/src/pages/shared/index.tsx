/** What a share link shows: the title, the status, the messages and the result of one session, live. */
import { SederuntProvider, SessionTranscript, useSederuntClient, useSessionRealtime } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { isSignedOutRefusal } from '../../auth/isSignedOutRefusal.js';
import { shareTokenOf } from '../../auth/shareToken.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Section } from '../../components/Section.js';
import { Skeleton } from '../../components/Skeleton.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { sharedSessionQueryKey } from '../../data/queryKeys.js';
import { segmentAfter } from '../../lib/pathSegment.js';
import { Markdown } from '../../markdown/Markdown.js';
import { ResultValue } from '../session/ResultValue.js';

const GONE = new Error('This link has ended or was never valid. Ask the person who sent it for another.');

/** What a session is called that has no title, or that cannot be read. */
const NAMELESS = 'A shared session';

function Heading({ children }: { children: string }) {
  return (
    <h1 dir="auto" className="text-title font-semibold wrap-anywhere">
      {children}
    </h1>
  );
}

function Result({ result }: { result: unknown }) {
  if (result === null || result === undefined) return null;
  return (
    <Section title="Result">
      <ResultValue result={result} />
    </Section>
  );
}

function renderMarkdown(text: string) {
  return <Markdown text={text} />;
}

function SharedSession({ id }: { id: string }) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = sharedSessionQueryKey(id);
  const { data, error, refetch } = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.get('/api/sessions/{id}', { path: { id }, signal }),
  });
  const { phase, delta } = useSessionRealtime(id);
  const isWriting = delta !== null && delta !== undefined;
  // A reply that is finished, or a stream that is back, may have changed the status and the result.
  // biome-ignore lint/correctness/useExhaustiveDependencies: these say when to read again.
  useEffect(
    () => void queries.invalidateQueries({ queryKey: sharedSessionQueryKey(id) }),
    [queries, id, isWriting, phase],
  );
  const title = data?.title ?? NAMELESS;
  useEffect(() => {
    document.title = `${title} · Sederunt`;
  }, [title]);

  if (error !== null) {
    const isGone = isSignedOutRefusal(error) || ('status' in error && error.status === 404);
    return (
      <>
        <Heading>{NAMELESS}</Heading>
        <ErrorState error={isGone ? GONE : error} onRetry={isGone ? undefined : () => void refetch()} />
      </>
    );
  }
  if (data === undefined) return <Skeleton />;
  return (
    <>
      <header className="flex flex-wrap items-center gap-3">
        <Heading>{title}</Heading>
        <StatusBadge status={data.status} />
      </header>
      <SessionTranscript
        sessionId={id}
        className="min-h-80 flex-1"
        height="100%"
        label={`Messages of ${title}`}
        renderMarkdown={renderMarkdown}
      />
      <Result result={data.result} />
    </>
  );
}

export function Page() {
  const [id] = useState(() => segmentAfter('/shared/') ?? '');
  const [token] = useState(() => shareTokenOf(encodeURIComponent(id)));
  return (
    <main className="mx-auto flex min-h-dvh max-w-3xl flex-col gap-3 p-4">
      {token === null ? (
        <>
          <Heading>{NAMELESS}</Heading>
          <EmptyState>This address needs its share link. Open the link that you were sent once more.</EmptyState>
        </>
      ) : (
        <SederuntProvider headers={{ 'x-share-token': token }} credentials="omit" scope={`share/${id}`}>
          <SharedSession id={id} />
        </SederuntProvider>
      )}
    </main>
  );
}
