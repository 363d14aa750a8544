/** Why it is asked: the agent's last words, and the way to the transcript. */
import { contentText, useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Section } from '../../components/Section.js';
import { Markdown } from '../../markdown/Markdown.js';
import { lastWordsQueryKey } from './queryKeys.js';

export function LastWords({ sessionId }: { sessionId: string }) {
  const client = useSederuntClient();
  const { data } = useQuery({
    queryKey: lastWordsQueryKey(sessionId),
    queryFn: ({ signal }) =>
      client.get('/api/sessions/{id}/events', {
        path: { id: sessionId },
        query: { types: 'agent.message', order: 'desc', limit: 1 },
        signal,
      }),
    retry: false,
  });
  const last = data?.events[0];
  const text = last === undefined ? '' : contentText(last.content);
  const path = `/sessions/${encodeURIComponent(sessionId)}`;
  return (
    <Section title="Why">
      {last !== undefined && text !== '' && (
        <blockquote className="border-l-2 border-line pl-3 text-soft">
          <Markdown text={text} />
        </blockquote>
      )}
      <p className="mt-1 text-row">
        <Link href={last === undefined ? path : `${path}?seq=${last.sequence}`} className="text-accent underline">
          Open the transcript{last !== undefined && ` at #${last.sequence}`}
        </Link>
      </p>
    </Section>
  );
}
