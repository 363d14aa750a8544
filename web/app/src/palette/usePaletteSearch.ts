/** What the palette finds on the server: sessions by title and by what was said in them, and tasks by name. */
import { type Session, type Task, useSederuntClient } from '@sederunt/react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { paletteQueryKey } from '../data/queryKeys.js';

const PAUSE_MS = 120;
const CHARS_MIN = 2;
const FOUND_MAX = 6;

export interface FoundSession {
  id: string;
  title: string;
  status: string | undefined;
  /** The words that were found, where they were said in a message. */
  snippet: string | undefined;
  sequence: number | undefined;
}

export interface Found {
  sessions: readonly FoundSession[];
  tasks: readonly Task[];
}

const NOTHING: Found = { sessions: [], tasks: [] };

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

interface Hit {
  session_id: string;
  sequence?: number | null;
  snippet: string;
  title?: string | null;
  status?: string | null;
}

/** Sessions by title first, then those in which the words were said, each session once. */
function mergedSessions(titled: readonly Session[], hits: readonly Hit[]): FoundSession[] {
  const found = new Map<string, FoundSession>();
  for (const session of titled) {
    const { id, title, status } = session;
    found.set(id, { id, title: title ?? id, status, snippet: undefined, sequence: undefined });
  }
  for (const hit of hits) {
    if (found.has(hit.session_id)) continue;
    const { session_id: id, snippet } = hit;
    const title = hit.title ?? id;
    found.set(id, { id, title, status: hit.status ?? undefined, snippet, sequence: hit.sequence ?? undefined });
  }
  return [...found.values()].slice(0, FOUND_MAX);
}

export function usePaletteSearch(typed: string) {
  const client = useSederuntClient();
  const words = useSettled(typed.trim());
  const query = useQuery<Found>({
    queryKey: paletteQueryKey(words),
    enabled: words.length >= CHARS_MIN,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    retry: false,
    queryFn: async ({ signal }) => {
      const [titled, said, tasks] = await Promise.all([
        client.get('/api/sessions', { query: { q: words, limit: FOUND_MAX }, signal }),
        client.get('/api/search', { query: { q: words, limit: FOUND_MAX }, signal }),
        client.get('/api/tasks', { query: { status: 'active', limit: 200 }, signal }),
      ]);
      const sessions = titled.items.filter((row): row is Session => 'session_type' in row);
      const wanted = words.toLocaleLowerCase();
      const named = tasks.items.filter((task) => task.name.toLocaleLowerCase().includes(wanted)).slice(0, FOUND_MAX);
      return { sessions: mergedSessions(sessions, said.items), tasks: named };
    },
  });
  const found = words.length >= CHARS_MIN ? (query.data ?? NOTHING) : NOTHING;
  return { found, isLooking: query.isFetching || words !== typed.trim(), error: query.error };
}
