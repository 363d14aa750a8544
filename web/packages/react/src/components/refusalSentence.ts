/** What to say about a refused decision, and beside which field. */
import { isRefusal } from '../client/refusal.js';

export interface RefusalSentence {
  text: string;
  /** The field that it is about, if it is about one. */
  field: string | undefined;
  /** Deciding again can help; otherwise the decision has been made. */
  isOpen: boolean;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function refusalSentence(error: Error): RefusalSentence {
  if (!isRefusal(error)) return { text: error.message, field: undefined, isOpen: true };
  const { code, details, field, message } = error;
  switch (code) {
    case 'already_decided': {
      const verdict = { approve: 'approved', deny: 'rejected' }[text(details['decision']) ?? ''];
      if (verdict === undefined) return { text: message, field: undefined, isOpen: false };
      const who = text(details['decided_by']) ?? 'Another person';
      return { text: `${who} ${verdict} this already.`, field: undefined, isOpen: false };
    }
    case 'hard_blocked': {
      const option = text(details['option']) ?? 'this value';
      return {
        text: `“${option}” is blocked by the criteria. Choose another.`,
        field: text(details['dimension']),
        isOpen: true,
      };
    }
    case 'stale_base':
      return { text: 'What is staged has changed. Look at it again, then decide.', field: undefined, isOpen: true };
    case 'output_invalid': {
      const complaints = Array.isArray(details['complaints']) ? details['complaints'].map(String).join(' ') : message;
      return { text: complaints, field: undefined, isOpen: true };
    }
    default:
      return { text: message, field: field?.replace(/^modified_(args|output)\.?/, ''), isOpen: true };
  }
}
