/** The ten statuses of a session, and how lists and blocks tell them. */

export const SESSION_STATUSES = [
  'draft',
  'pending',
  'running',
  'waiting_human',
  'awaiting_tool',
  'idle',
  'completed',
  'failed',
  'expired',
  'abandoned',
] as const;

export type SessionStatus = (typeof SESSION_STATUSES)[number];

export function isValidSessionStatus(text: string): text is SessionStatus {
  return (SESSION_STATUSES as readonly string[]).includes(text);
}

const TERMINAL_STATUSES: readonly string[] = ['completed', 'failed', 'expired', 'abandoned'];

export function isTerminalStatus(text: string): boolean {
  return TERMINAL_STATUSES.includes(text);
}

interface StatusSign {
  glyph: string;
  word: string;
}

const SIGNS: Record<SessionStatus, StatusSign> = {
  draft: { glyph: '○', word: 'draft' },
  pending: { glyph: '◔', word: 'pending' },
  running: { glyph: '●', word: 'running' },
  waiting_human: { glyph: '◐', word: 'waiting human' },
  awaiting_tool: { glyph: '◑', word: 'awaiting tool' },
  idle: { glyph: '◌', word: 'idle' },
  completed: { glyph: '✓', word: 'completed' },
  failed: { glyph: '✕', word: 'failed' },
  expired: { glyph: '⌛', word: 'expired' },
  abandoned: { glyph: '⊘', word: 'abandoned' },
};

/** The glyph and the word of a status. A status that this version does not know is told by its own name. */
export function statusSign(status: string): StatusSign {
  return isValidSessionStatus(status) ? SIGNS[status] : { glyph: '?', word: status.replaceAll('_', ' ') };
}
