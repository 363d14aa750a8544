/** The keys of what only the inbox keeps in React Query. */

export function sessionTitlesQueryKey(ids: readonly string[]) {
  return ['sessions', 'titles', ids] as const;
}

export function lastWordsQueryKey(sessionId: string) {
  return ['sessions', sessionId, 'last-words'] as const;
}
