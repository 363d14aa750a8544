/** Reads what an event says, whatever it holds: logs are written by many programs. */
import type { SessionEvent } from '../api/types.js';

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value as people read it. Never fails: what cannot be written as JSON is told by its kind. */
export function readableJson(value: unknown): string {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value, null, 2) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (!isRecord(part)) return part === null || part === undefined ? '' : readableJson(part);
  if (typeof part['text'] === 'string') return part['text'];
  if (part['type'] === 'text') return '';
  if (part['type'] === 'file') return `[file: ${readableJson(part['name'] ?? part['url'] ?? part['id'] ?? 'unnamed')}]`;
  return readableJson(part);
}

/** The text of an event's content: its parts one after the other, and what is no text as JSON. */
export function contentText(content: unknown): string {
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return partText(content);
  return content
    .map(partText)
    .filter((text) => text !== '')
    .join('\n');
}

/** What a model says when it has nothing to say. */
const SILENCE_MARKERS = ['<NO_REPLY>', '<EMPTY_RESPONSE>'] as const;

/** The text of an event as readers see it: a reply without the markers of silence, empty if nothing else was said. */
export function saidText(event: Pick<SessionEvent, 'type' | 'content'>): string {
  const text = contentText(event.content);
  if (event.type !== 'agent.message' || !SILENCE_MARKERS.some((marker) => text.includes(marker))) return text;
  const said: string[] = [];
  for (const char of text) {
    said.push(char);
    if (char !== '>') continue;
    const marker = SILENCE_MARKERS.find((one) => said.slice(-one.length).join('') === one);
    if (marker !== undefined) said.length -= marker.length;
  }
  const left = said.join('');
  return left.trim() === '' ? '' : left;
}

/** One key of an event's metadata, if it is a text. */
export function metadataText(event: Pick<SessionEvent, 'metadata'>, key: string): string | undefined {
  const value = isRecord(event.metadata) ? event.metadata[key] : undefined;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Whether what came over the wire can be kept as an event: a sequence and a type. Everything else may be missing. */
export function isSessionEvent(value: unknown): value is SessionEvent {
  return (
    isRecord(value) &&
    typeof value['type'] === 'string' &&
    Number.isSafeInteger(value['sequence']) &&
    (value['sequence'] as number) > 0
  );
}
