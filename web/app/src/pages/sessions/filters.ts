/** What the list of sessions may be narrowed to, as it stands in the address, and what of it is asked of the server. */
import { SESSION_STATUSES } from '@sederunt/react';
import { flag, freeText, oneOf, type ParameterValues, someOf } from '../../lib/urlParameters.js';

export const SESSION_TYPES = ['agent', 'response', 'tool', 'mixed'] as const;
export const SESSION_GROUPS = ['active', 'live', 'failing', 'terminal'] as const;
export const SOURCE_KINDS = ['cli', 'api', 'web', 'channel', 'schedule', 'task', 'human-session-bridge'] as const;

export const SESSION_FILTERS = {
  q: freeText(),
  /** Shows each message that has the words, instead of sessions. */
  in: oneOf(['messages']),
  type: oneOf(SESSION_TYPES),
  status: someOf(SESSION_STATUSES),
  group: oneOf(SESSION_GROUPS),
  agent: freeText(),
  task: freeText(),
  kind: oneOf(SOURCE_KINDS),
  user: freeText(),
  /** Only sessions that were hidden. */
  inactive: flag(),
  /** Also sessions that are a step of another one. */
  steps: flag(),
};

export type SessionFilters = ParameterValues<typeof SESSION_FILTERS>;

export const NO_FILTERS: SessionFilters = {
  q: '',
  in: null,
  type: null,
  status: [],
  group: null,
  agent: '',
  task: '',
  kind: null,
  user: '',
  inactive: false,
  steps: false,
};

/** The query of `GET /api/sessions`. Steps of a run are listed where they are asked for, or where words look for them. */
export function listQuery(filters: SessionFilters) {
  const { q, type, status, group, agent, task, kind, user, inactive, steps } = filters;
  return {
    ...(q === '' ? {} : { q }),
    ...(type === null ? {} : { session_type: type }),
    ...(status.length === 0 ? {} : { status: status.join(',') }),
    ...(group === null ? {} : { group }),
    ...(agent === '' ? {} : { agent_slug: agent }),
    ...(task === '' ? {} : { task_id: task }),
    ...(kind === null ? {} : { kind }),
    ...(user === '' ? {} : { user_id: user }),
    ...(inactive ? { inactive: true } : {}),
    ...(steps || q !== '' ? {} : { parents_only: true }),
  };
}

export type ListQuery = ReturnType<typeof listQuery>;

export function isFiltered(filters: SessionFilters): boolean {
  return Object.keys(SESSION_FILTERS).some((name) => {
    const value = filters[name as keyof SessionFilters];
    return Array.isArray(value) ? value.length > 0 : Boolean(value);
  });
}

export interface SavedFilter {
  name: string;
  filters: Partial<SessionFilters>;
}

/** The filters that stand ready. Who has no name on this server holds no sessions, and has no “mine”. */
export function savedFilters(userId: string | undefined): readonly SavedFilter[] {
  const failing: SavedFilter = { name: 'failing', filters: { group: 'failing' } };
  return userId === undefined ? [failing] : [{ name: 'mine', filters: { user: userId } }, failing];
}

/** Whether exactly this saved filter holds. */
export function isSaved(saved: SavedFilter, filters: SessionFilters): boolean {
  const wanted = { ...NO_FILTERS, ...saved.filters };
  return JSON.stringify(wanted) === JSON.stringify({ ...NO_FILTERS, ...filters });
}
