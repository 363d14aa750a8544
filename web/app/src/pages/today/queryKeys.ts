/** The keys of what only Today keeps in React Query. */

export function stepProgressQueryKey(sessionId: string) {
  return ['sessions', sessionId, 'step-progress'] as const;
}
