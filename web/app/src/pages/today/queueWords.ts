/** What the lines of the work queue are called, and where they lead. */

import { approvalTitle } from '../../decisions/approvalWords.js';
import { inboxPath } from '../../decisions/inboxPath.js';
import type { QueueItem } from './useBucket.js';

export function itemId({ approval, session, task }: QueueItem): string {
  return approval?.id ?? session?.id ?? task?.id ?? '';
}

export function itemTitle({ approval, session, task }: QueueItem): string {
  const about = task?.name ?? session?.title;
  if (approval) return approvalTitle(approval, about);
  return about || session?.id || task?.id || '';
}

/** Tasks have no page of their own yet: they lead to their runs. */
export function itemHref({ approval, session, task }: QueueItem): string {
  if (approval) return inboxPath(approval.id);
  if (session) return `/sessions/${encodeURIComponent(session.id)}`;
  return `/sessions?task=${encodeURIComponent(task?.id ?? '')}`;
}
