/** What the page says about a session that is a chat. */
import type { Session } from '@sederunt/react';

/** A chat is talk that no task runs; people's own working sessions are talk too, and have a page of their own. */
export function isChat(session: Session): boolean {
  return session.task_id === null && session.source.kind !== 'human-session-bridge';
}

export function chatTitle(session: Session | undefined): string {
  const title = session?.title?.trim() || session?.description?.trim();
  return title === undefined || title === '' ? 'New chat' : title;
}

export function isIncognito(session: Session | undefined): boolean {
  return session?.memory_mode === 'incognito';
}
