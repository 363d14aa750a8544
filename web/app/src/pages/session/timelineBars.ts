/** From a log to the bars of its timeline: tool calls, replies of the model, and waits for a person. */
import { contentText, metadataText, type SessionEvent } from '@sederunt/react';

export type BarKind = 'call' | 'reply' | 'wait';

export interface TimelineBar {
  /** Of the event that a click leads to. */
  sequence: number;
  kind: BarKind;
  label: string;
  start: number;
  end: number;
  isOpen: boolean;
  isFailed: boolean;
}

const LABEL_CHARS_MAX = 80;
const WAITS: Record<string, string> = { waiting_human: 'waits for a person', awaiting_tool: 'waits for a decision' };
/** After one of these, the model has something to answer. */
const ASKS = new Set([
  'user.message',
  'agent.tool_result',
  'user.tool_result',
  'user.tool_confirmation',
  'user.output_approval',
]);

interface Open {
  bar: Omit<TimelineBar, 'end' | 'isOpen'>;
}

function isFailure(event: SessionEvent): boolean {
  const metadata: unknown = event.metadata;
  return (
    typeof metadata === 'object' && metadata !== null && (metadata as Record<string, unknown>)['is_error'] === true
  );
}

function label(text: string): string {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length > LABEL_CHARS_MAX ? `${line.slice(0, LABEL_CHARS_MAX)}…` : line;
}

/** Collects bars while the log is read once, oldest first. */
class BarReader {
  readonly bars: TimelineBar[] = [];
  #calls = new Map<string, Open>();
  #wait: Open | null = null;
  #askedAt: number | null = null;

  read(event: SessionEvent, at: number): void {
    const callId = metadataText(event, 'tool_call_id');
    if (event.type === 'session.status_change') this.#readStatus(event, at);
    if (event.type === 'agent.tool_call') {
      const name = metadataText(event, 'tool_name') ?? 'tool';
      this.#reply(event, at, `chose ${name}`);
      this.#calls.set(callId ?? `#${event.sequence}`, this.#begin(event, 'call', name, at));
    } else if (event.type === 'agent.message') {
      this.#reply(event, at, label(contentText(event.content)) || 'reply');
    } else if (event.type === 'agent.tool_result' && callId !== undefined) {
      const call = this.#calls.get(callId);
      this.#calls.delete(callId);
      if (call !== undefined) this.#close(call, at, isFailure(event));
    }
    if (ASKS.has(event.type)) this.#askedAt = at;
  }

  /** What has no end yet lasts until now; in a session that is over, it ends with the log. */
  finish(now: number, isOver: boolean): void {
    const open = [...this.#calls.values(), ...(this.#wait === null ? [] : [this.#wait])];
    for (const { bar } of open) this.bars.push({ ...bar, end: Math.max(bar.start, now), isOpen: !isOver });
  }

  #begin(event: SessionEvent, kind: BarKind, text: string, start: number): Open {
    return { bar: { sequence: event.sequence, kind, label: text, start, isFailed: false } };
  }

  #close({ bar }: Open, at: number, isFailed = false): void {
    this.bars.push({ ...bar, end: Math.max(bar.start, at), isOpen: false, isFailed });
  }

  #reply(event: SessionEvent, at: number, text: string): void {
    if (this.#askedAt !== null) this.#close(this.#begin(event, 'reply', text, this.#askedAt), at);
    this.#askedAt = null;
  }

  #readStatus(event: SessionEvent, at: number): void {
    const to = metadataText(event, 'to') ?? '';
    if (this.#wait !== null) this.#close(this.#wait, at);
    const wait = WAITS[to];
    this.#wait = wait === undefined ? null : this.#begin(event, 'wait', wait, at);
    this.#askedAt = to === 'running' ? at : wait === undefined ? this.#askedAt : null;
  }
}

/** Events whose time cannot be read are left out; a clock that went back makes a bar of no length. */
export function timelineBars(events: readonly SessionEvent[], now: number, isOver: boolean): readonly TimelineBar[] {
  const reader = new BarReader();
  let last = Number.NEGATIVE_INFINITY;
  for (const event of events) {
    const at = Date.parse(event.at);
    if (Number.isNaN(at)) continue;
    last = Math.max(last, at);
    reader.read(event, at);
  }
  if (last === Number.NEGATIVE_INFINITY) return [];
  reader.finish(isOver ? last : Math.max(now, last), isOver);
  return reader.bars.sort((one, other) => one.start - other.start || one.sequence - other.sequence);
}
