/** Texts whose formatting took too long, so that they are shown plain the next time. */

const FORMAT_MS_MAX = 30;
const REMEMBERED_MAX = 500;

const slow = new Set<string>();

export function wasSlow(text: string): boolean {
  return slow.has(text);
}

export function noteFormatting(text: string, ms: number): void {
  if (ms <= FORMAT_MS_MAX) return;
  if (slow.size >= REMEMBERED_MAX) slow.clear();
  slow.add(text);
}
