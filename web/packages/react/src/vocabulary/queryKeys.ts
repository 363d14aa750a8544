/** The keys of everything that the hooks keep in React Query. Invalidate by these, never by a key written by hand. */

export const activeHumanSessionQueryKey = ['sessions', 'human', 'active'] as const;

/** All pages and filters of one session's events. */
export function sessionEventsQueryKey(sessionId: string) {
  return ['sessions', sessionId, 'events'] as const;
}

export interface EntitySessionsKeyOptions {
  includeChildren?: boolean | undefined;
  limit?: number | undefined;
}

/** One list of an entity's sessions; without options, all of them. */
export function entitySessionsQueryKey(entityId: string, options?: EntitySessionsKeyOptions) {
  const base = ['entities', entityId, 'sessions'] as const;
  if (options === undefined) return base;
  return [...base, { includeChildren: options.includeChildren ?? false, limit: options.limit ?? 20 }] as const;
}

export function workQueueCountsQueryKey(timeZone?: string) {
  const base = ['today', 'work-queue-counts'] as const;
  return timeZone === undefined ? base : ([...base, timeZone] as const);
}

export function activeTasksQueryKey(assignedTo?: string) {
  const base = ['tasks', 'active'] as const;
  return assignedTo === undefined ? base : ([...base, assignedTo] as const);
}

export function approvalQueryKey(approvalId: string) {
  return ['approvals', approvalId] as const;
}
