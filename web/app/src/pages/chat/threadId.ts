/** The ids of new chats, and what an address may name. */

const LETTERS = '0123456789abcdefghijklmnopqrstuvwxyz';
const LENGTH = 8;
/** The largest multiple of 36 in a byte: bytes from here on would make some letters more likely than others. */
const FAIR_BYTES = 252;

/** `web-` and eight letters of base 36. */
export function newThreadId(): string {
  let id = '';
  while (id.length < LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(16))) {
      if (byte < FAIR_BYTES && id.length < LENGTH) id += LETTERS.charAt(byte % LETTERS.length);
    }
  }
  return `web-${id}`;
}

/** The chat that a path names; null for the page of a new chat, undefined for an address that can name none. */
export function threadOfPath(path: string): string | null | undefined {
  const [, , name, ...rest] = path.split('/');
  if (name === undefined || name === '') return null;
  if (rest.length > 0) return undefined;
  try {
    const id = decodeURIComponent(name);
    return id.length <= 200 ? id : undefined;
  } catch {
    return undefined;
  }
}

export function chatPath(threadId: string): string {
  return `/chat/${encodeURIComponent(threadId)}`;
}
