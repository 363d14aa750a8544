/** The keys of what the app itself keeps in React Query. The package has builders for the rest. */

export function paletteQueryKey(words: string) {
  return ['palette', words] as const;
}

/** The lines of one bucket of Today; without a limit, all of that bucket. */
export function bucketQueryKey(bucket: string, limit?: number) {
  const base = ['today', 'bucket', bucket] as const;
  return limit === undefined ? base : ([...base, limit] as const);
}

/** Lists of sessions; each filter is a list of its own. */
export function sessionListQueryKey(filter?: Readonly<Record<string, unknown>>) {
  const base = ['sessions', 'list'] as const;
  return filter === undefined ? base : ([...base, filter] as const);
}

export function sessionQueryKey(id: string) {
  return ['sessions', id, 'row'] as const;
}

export function approvalListQueryKey(filter?: Readonly<Record<string, unknown>>) {
  const base = ['approvals', 'list'] as const;
  return filter === undefined ? base : ([...base, filter] as const);
}

export function sharedSessionQueryKey(id: string) {
  return ['shared', id] as const;
}

export const agentNamesQueryKey = ['agents', 'names'] as const;
export const taskNamesQueryKey = ['tasks', 'names'] as const;

/** Messages that have the words. */
export function messageHitsQueryKey(words: string) {
  return ['search', 'messages', words] as const;
}

export function sessionChildrenQueryKey(id: string) {
  return ['sessions', id, 'children'] as const;
}

export function sessionApprovalsQueryKey(id: string) {
  return ['approvals', 'of-session', id] as const;
}

export function sharesQueryKey(sessionId: string) {
  return ['sessions', sessionId, 'shares'] as const;
}

/** One page of a session's log as it is stored. */
export function rawEventsQueryKey(id: string, after: number) {
  return ['sessions', id, 'raw', after] as const;
}

export function taskQueryKey(id: string) {
  return ['tasks', id] as const;
}
