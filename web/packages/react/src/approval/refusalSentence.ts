/** What to say about a refused decision, and beside which field. */
import type { Approval } from '../api/types.js';
import { isRefusal, type SederuntRefusal } from '../client/refusal.js';
import { durationText } from '../vocabulary/time.js';
import { blockedSentence } from './fieldShape.js';

export interface RefusalSentence {
  text: string;
  /** The field that it is about, if it is about one. */
  field: string | undefined;
  /** Deciding again can help; otherwise the decision has been made. */
  isOpen: boolean;
}

const VERBS: Record<string, string> = { approve: 'approved', deny: 'rejected' };

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function decidedSentence(refusal: SederuntRefusal, settled: Approval | undefined, now: number): string {
  const verb = VERBS[text(refusal.details['decision']) ?? ''];
  if (verb === undefined) return refusal.message;
  const who = text(refusal.details['decided_by']) ?? 'Another person';
  const at = settled?.decided_at;
  return `${who} ${verb} this ${at ? `${durationText(now - Date.parse(at))} ago` : 'already'}.`;
}

function staleSentence(refusal: SederuntRefusal): string {
  const { fields } = refusal.details;
  if (!Array.isArray(fields) || fields.length === 0) {
    return 'What is staged has changed. Look at it again, then decide.';
  }
  const [names, verb] = [fields.join(', '), fields.length === 1 ? 'has' : 'have'];
  return `${names} ${verb} changed since this was staged. Look at it again, then decide.`;
}

/** `settled` is the approval as it is now, where another decision came first. */
export function refusalSentence(error: Error, settled?: Approval, now = Date.now()): RefusalSentence {
  const about = (words: string, field?: string, isOpen = true) => ({ text: words, field, isOpen });
  if (!isRefusal(error)) return about(error.message);
  const { code, details, field, message } = error;
  switch (code) {
    case 'already_decided':
      return about(decidedSentence(error, settled, now), undefined, false);
    case 'hard_blocked':
      return about(blockedSentence(text(details['option']) ?? 'this value'), text(details['dimension']));
    case 'stale_base':
      return about(staleSentence(error));
    case 'output_invalid':
      return about(Array.isArray(details['complaints']) ? details['complaints'].map(String).join(' ') : message);
    default:
      return about(message, field?.replace(/^modified_(args|output)\.?/, ''));
  }
}
