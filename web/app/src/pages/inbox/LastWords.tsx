/** Why it is asked: the agent's last words, and the way to the transcript. */
import { saidText, useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Section } from '../../components/Section.js';
import { Markdown } from '../../markdown/Markdown.js';
import { lastWordsQueryKey } from './queryKeys.js';

const READ_MAX = 3;

/** A run often says its output once more, as JSON. */
function isOutput(text: string, staged: unknown): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(staged);
  } catch {
    return text === staged;
  }
}

export function LastWords({ sessionId, staged }: { sessionId: string; staged: unknown }) {
  const client = useSederuntClient();
  const { data } = useQuery({
    queryKey: lastWordsQueryKey(sessionId),
    queryFn: ({ signal }) =>
      client.get('/api/sessions/{id}/events', {
        path: { id: sessionId },
        query: { types: 'agent.message', order: 'desc', limit: READ_MAX },
        signal,
      }),
    retry: false,
  });
  const said = (data?.events ?? []).map((event) => ({ sequence: event.sequence, text: saidText(event) }));
  const last = said.find(({ text }) => text !== '' && !isOutput(text, staged));
  const path = `/sessions/${encodeURIComponent(sessionId)}`;
  const link = (
    <p className="text-row">
      <Link href={last === undefined ? path : `${path}?seq=${last.sequence}`} className="text-accent underline">
        Open the transcript{last !== undefined && ` at #${last.sequence}`}
      </Link>
    </p>
  );
  if (last === undefined) return link;
  return (
    <Section title="Why">
      <blockquote className="border-l-2 border-line pl-3 text-soft">
        <Markdown text={last.text} />
      </blockquote>
      {link}
    </Section>
  );
}
