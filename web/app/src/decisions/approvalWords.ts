/** Approvals in the words of lists: what they are called, which are alike, and which come first. */
import { type Approval, durationText, readStaged } from '@sederunt/react';

const SOON_MS = 24 * 3_600_000;
const PREVIEW_CHARS_MAX = 80;

/** Sentences that are offered as the reason of a rejection. */
export const REASON_TEMPLATES = [
  'Not now.',
  'Check the facts, and name where they come from.',
  'Too long. Say it in three sentences.',
  'Ask me before you try this again.',
] as const;

export const KIND_WORDS: Readonly<Record<string, string>> = {
  tool: 'tool call',
  output: 'output',
  promotion: 'promotion',
  question: 'question',
};

function preview(values: Readonly<Record<string, unknown>>): string {
  const text = Object.values(values).find((value) => typeof value === 'string' && value.trim() !== '');
  return typeof text === 'string' ? text.replace(/\s+/g, ' ').slice(0, PREVIEW_CHARS_MAX) : '';
}

/** `about` is the name of the task or session that asks. */
export function approvalTitle(approval: Approval, about: string | null | undefined): string {
  const staged = readStaged(approval);
  switch (staged.kind) {
    case 'tool': {
      const text = preview(staged.values);
      return text === '' ? staged.name : `${staged.name} “${text}”`;
    }
    case 'question':
      return staged.text;
    case 'broken':
      return 'An approval that cannot be read';
    default:
      return about || preview(staged.values) || (KIND_WORDS[approval.kind] ?? approval.kind);
  }
}

/** What is staged, in a few words. */
export function stagedWords(approval: Approval): string {
  const staged = readStaged(approval);
  if (staged.kind !== 'fields') return '';
  const fields = Object.keys(staged.values).length;
  const score = typeof approval.score === 'number' ? `, score ${approval.score.toFixed(1)}` : '';
  return `${fields} ${fields === 1 ? 'field' : 'fields'}${score}`;
}

function expiresAt(approval: Approval): number {
  return approval.expires_at === null ? Number.NaN : Date.parse(approval.expires_at);
}

export function isExpiringSoon(approval: Approval, now: number): boolean {
  return expiresAt(approval) - now < SOON_MS;
}

/** How long it has waited or, of one that expires soon, how long it still waits. */
export function waitWords(approval: Approval, now: number): string {
  if (isExpiringSoon(approval, now)) return `expires in ${durationText(expiresAt(approval) - now)}`;
  return `waits ${durationText(now - Date.parse(approval.created_at))}`;
}

/** Those that expire soon come first, the soonest of them before the others; then the oldest. */
export function byUrgency(now: number) {
  return (one: Approval, other: Approval): number => {
    const [oneIsSoon, otherIsSoon] = [isExpiringSoon(one, now), isExpiringSoon(other, now)];
    if (oneIsSoon !== otherIsSoon) return oneIsSoon ? -1 : 1;
    if (oneIsSoon) return expiresAt(one) - expiresAt(other);
    return Date.parse(one.created_at) - Date.parse(other.created_at);
  };
}

/** Names what is decided together: calls of one tool, outputs of one task. Null for what is decided alone. */
export function likenessOf(approval: Approval): string | null {
  const staged = readStaged(approval);
  switch (staged.kind) {
    case 'tool':
      return `tool ${staged.name}`;
    case 'fields':
    case 'whole':
      return `${approval.kind} ${approval.task_id ?? approval.promotion?.entity_type ?? approval.session_id}`;
    default:
      return null;
  }
}
