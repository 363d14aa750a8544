/** What the inbox shows, as it stands in the address. */
import { oneOf } from '../../lib/urlParameters.js';

export const KIND_FILTERS = [
  { kind: null, words: 'All' },
  { kind: 'tool', words: 'Tools' },
  { kind: 'output', words: 'Outputs' },
  { kind: 'promotion', words: 'Promotions' },
  { kind: 'question', words: 'Questions' },
] as const;

export const FILTERS = {
  kind: oneOf(['tool', 'output', 'promotion', 'question']),
  /** `mine`: assigned to the person or to no one. */
  whose: oneOf(['mine', 'all'], 'mine'),
  /** What is begun with the approval in the address. */
  do: oneOf(['edit', 'reject']),
};
