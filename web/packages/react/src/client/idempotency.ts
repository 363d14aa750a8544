/** A key for a call that must have one effect, however often it is sent. Made when the person presses the button. */
export function newIdempotencyKey(): string {
  // `randomUUID` is missing on plain HTTP beyond loopback; `getRandomValues` is there everywhere.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
