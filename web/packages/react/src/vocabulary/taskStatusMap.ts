/** From an entity's sessions to the dot beside each of its fields. */
import { isValidSessionStatus, type SessionStatus } from './status.js';

export const BLOCK_STATUSES = ['pending', 'in-progress', 'waiting-human', 'complete', 'failed'] as const;
export type BlockStatus = (typeof BLOCK_STATUSES)[number];

const BLOCKS: Record<SessionStatus, BlockStatus> = {
  draft: 'pending',
  pending: 'pending',
  running: 'in-progress',
  idle: 'in-progress',
  waiting_human: 'waiting-human',
  awaiting_tool: 'waiting-human',
  completed: 'complete',
  failed: 'failed',
  expired: 'failed',
  abandoned: 'failed',
};

export function sessionStatusToBlockStatus(status: SessionStatus): BlockStatus {
  return BLOCKS[status];
}

export interface TaskStatusMap {
  readonly byFieldName: ReadonlyMap<string, BlockStatus>;
  readonly byBlockId: ReadonlyMap<string, BlockStatus>;
}

export const EMPTY_TASK_STATUS_MAP: TaskStatusMap = { byFieldName: new Map(), byBlockId: new Map() };

/** What the map needs of a session. Rows of `useEntitySessions` fit; `block_id` is the session's `metadata.block_id`. */
export interface StatusMapSession {
  id: string;
  status: string;
  block_id?: string | null | undefined;
}

/**
 * The status of every field and block. The sessions come newest first, and the newest one that touches a field decides it.
 * Sessions with a status that this version does not know are passed over.
 */
export function buildTaskStatusMap(
  sessions: readonly StatusMapSession[],
  fieldNamesBySessionId?: ReadonlyMap<string, readonly string[]>,
): TaskStatusMap {
  if (sessions.length === 0) return EMPTY_TASK_STATUS_MAP;
  const byFieldName = new Map<string, BlockStatus>();
  const byBlockId = new Map<string, BlockStatus>();
  const decide = (map: Map<string, BlockStatus>, name: string, status: BlockStatus) => {
    if (!map.has(name)) map.set(name, status);
  };
  for (const session of sessions) {
    if (!isValidSessionStatus(session.status)) continue;
    const status = sessionStatusToBlockStatus(session.status);
    if (session.block_id) decide(byBlockId, session.block_id, status);
    for (const field of fieldNamesBySessionId?.get(session.id) ?? []) decide(byFieldName, field, status);
  }
  return { byFieldName, byBlockId };
}
