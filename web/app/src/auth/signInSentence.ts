/** One sentence for each way in which signing in is refused. */
import { durationText, isRefusal } from '@sederunt/react';
import type { CredentialKind } from './api.js';

export function signInSentence(error: unknown, kind: CredentialKind): string {
  if (!isRefusal(error)) return 'Signing in did not work. Reload the page and try again.';
  if (error.status === 401)
    return `This ${kind} is unknown, revoked or expired. Check it, or ask an owner for another.`;
  if (error.status === 403) return `This ${kind} is not for browsers. Use one of an owner, a member or a guest.`;
  if (error.status === 429) {
    const wait = error.retryAfterMs === undefined ? 'a minute' : durationText(error.retryAfterMs);
    return `Too many tries from this address. Try again in ${wait}.`;
  }
  return error.message;
}
