/** The keys of what only this page keeps in React Query. */
import { sessionListQueryKey } from '../../data/queryKeys.js';

/** The list of conversations; the hidden ones are a list of their own. */
export function chatListQueryKey(isHidden: boolean) {
  return [...sessionListQueryKey({ session_type: 'mixed', inactive: isHidden }), 'pages'] as const;
}

export function ratingsQueryKey(threadId: string) {
  return ['threads', threadId, 'ratings'] as const;
}
