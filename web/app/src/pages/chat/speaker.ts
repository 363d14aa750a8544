/**
 * Whose memory a chat uses. Without sign-in the page names a user with each message: `web-user`, or the name that the person
 * gave in this browser. Signed in, the user is the credential's and is never sent; an incognito chat names no user at all.
 */
import { useSyncExternalStore } from 'react';
import type { Me } from '../../auth/api.js';

export const DEFAULT_SPEAKER = 'web-user';
const STORED_AS = 'sederunt:chat-name';
const NAME = /^[!-~]{1,200}$/;

let known: string | undefined;
const listeners = new Set<() => void>();

function storedName(): string {
  try {
    const stored = localStorage.getItem(STORED_AS) ?? '';
    return NAME.test(stored) ? stored : DEFAULT_SPEAKER;
  } catch {
    return DEFAULT_SPEAKER;
  }
}

function speaker(): string {
  known ??= storedName();
  return known;
}

/** Whether the server takes the text as the id of a user. */
export function isSpeakerName(text: string): boolean {
  return NAME.test(text);
}

/** An empty name is the usual one again. */
export function setSpeaker(name: string): void {
  known = isSpeakerName(name) ? name : DEFAULT_SPEAKER;
  try {
    if (known === DEFAULT_SPEAKER) localStorage.removeItem(STORED_AS);
    else localStorage.setItem(STORED_AS, known);
  } catch {
    // Storage is full or switched off: the name holds until the page is closed.
  }
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSpeaker(): string {
  return useSyncExternalStore(subscribe, speaker);
}

/** The `user_id` that goes with a message, if one does. */
export function userIdOf(me: Me, name: string, isIncognito: boolean): string | undefined {
  return me.auth === 'local' && !isIncognito ? name : undefined;
}
