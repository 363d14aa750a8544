/** The token of a share link: taken out of the address before anything is drawn, and kept for this tab alone. */
import { segmentAfter } from '../lib/pathSegment.js';

const inMemory = new Map<string, string>();

function storageKey(sessionId: string): string {
  return `sederunt:share:${sessionId}`;
}

/** Takes `?share=` out of the address of a shared session, if it is there. */
export function takeShareToken(): void {
  const address = new URL(location.href);
  const sessionId = segmentAfter('/shared/', address.pathname);
  const token = address.searchParams.get('share');
  if (sessionId === null || token === null) return;
  address.searchParams.delete('share');
  history.replaceState(history.state, '', address.pathname + address.search + address.hash);
  if (token === '') return;
  const key = storageKey(encodeURIComponent(sessionId));
  inMemory.set(key, token);
  try {
    sessionStorage.setItem(key, token);
  } catch {
    // Storage is switched off: the link holds until the tab is reloaded.
  }
}

/** The token that this tab holds for a session. `sessionId` is as it stands in the address. */
export function shareTokenOf(sessionId: string): string | null {
  const key = storageKey(sessionId);
  try {
    return inMemory.get(key) ?? sessionStorage.getItem(key);
  } catch {
    return inMemory.get(key) ?? null;
  }
}
