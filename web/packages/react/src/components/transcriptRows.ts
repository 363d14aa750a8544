/** From events to the rows of a transcript: a call and its result are one row. */
import type { SessionEvent } from '../api/types.js';
import { isRecord, metadataText } from '../vocabulary/content.js';
import { isKnownEventType } from '../vocabulary/eventTypes.js';

export type RowKind = 'message' | 'thinking' | 'call' | 'lifecycle' | 'activity' | 'other';

export interface TranscriptRow {
  /** The sequence of its first event: rows keep their key when others come before them. */
  readonly key: number;
  readonly kind: RowKind;
  readonly event: SessionEvent;
  /** Of a call: its result. */
  readonly result: SessionEvent | undefined;
}

/** The rows of a list of events, and what is needed to go on from there. */
export interface TranscriptRows {
  readonly events: readonly SessionEvent[];
  readonly rows: readonly TranscriptRow[];
  /** Where the call of an id is, until its result came. */
  readonly openCalls: ReadonlyMap<string, number>;
}

/** A result is looked for in so many rows before its place; beyond that, the nearest row stands for it. */
const CALL_ROWS_BACK = 1_000;

export const NO_ROWS: TranscriptRows = { events: [], rows: [], openCalls: new Map() };

export function rowKind(type: string): RowKind {
  if (!isKnownEventType(type)) return 'other';
  if (type === 'user.message' || type === 'agent.message' || type === 'human.marker') return 'message';
  if (type === 'agent.thinking') return 'thinking';
  if (type === 'agent.tool_call' || type === 'agent.tool_result') return 'call';
  if (type.startsWith('human.')) return 'activity';
  return type.startsWith('session.') ? 'lifecycle' : 'other';
}

/** Whether the events begin with those that the rows were made of. */
function continues(made: TranscriptRows, events: readonly SessionEvent[]): boolean {
  const count = made.events.length;
  return (
    count > 0 && events.length >= count && events[0] === made.events[0] && events[count - 1] === made.events[count - 1]
  );
}

/**
 * The rows of `events`. If they continue those of `made`, only what is new is looked at, so that the ten-thousandth event
 * costs what the tenth did; rows that did not change keep their identity.
 */
export function transcriptRows(made: TranscriptRows, events: readonly SessionEvent[]): TranscriptRows {
  if (events === made.events) return made;
  const base = continues(made, events) ? made : NO_ROWS;
  const rows = [...base.rows];
  const openCalls = new Map(base.openCalls);
  for (let at = base.events.length; at < events.length; at += 1) {
    const event = events[at] as SessionEvent;
    const callId = metadataText(event, 'tool_call_id');
    const row = { key: event.sequence, kind: rowKind(event.type), event, result: undefined };
    if (event.type === 'agent.tool_call' && callId !== undefined) openCalls.set(callId, rows.length);
    if (event.type === 'agent.tool_result' && callId !== undefined) {
      const callAt = openCalls.get(callId);
      const call = callAt === undefined ? undefined : rows[callAt];
      if (callAt !== undefined && call !== undefined) {
        openCalls.delete(callId);
        rows[callAt] = { ...call, result: event };
        continue;
      }
    }
    rows.push(row);
  }
  return { events, rows, openCalls };
}

/** Whether an event is the row's own, or the result of its call. */
export function rowHolds(row: TranscriptRow, sequence: number): boolean {
  return row.key === sequence || row.result?.sequence === sequence;
}

/** Where the row of an event is, or else the nearest row before it; -1 if there is none. */
export function rowIndexOf(rows: readonly TranscriptRow[], sequence: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle] as TranscriptRow).key <= sequence) low = middle + 1;
    else high = middle;
  }
  for (let at = low - 1; at >= Math.max(0, low - CALL_ROWS_BACK); at -= 1) {
    if (rows[at]?.result?.sequence === sequence) return at;
  }
  return low - 1;
}

/** One sentence about a row that is no message, for people. */
export function rowSummary(event: SessionEvent): string {
  const told = (key: string) => metadataText(event, key);
  switch (event.type) {
    case 'session.status_change': {
      const reason = told('reason');
      return `${told('from') ?? '?'} → ${told('to') ?? '?'}${reason === undefined ? '' : `: ${reason}`}`;
    }
    case 'session.error':
      return told('message') ?? told('code') ?? 'failed';
    case 'session.claimed':
      return `claimed by ${told('worker') ?? 'a worker'}`;
    case 'session.waiting_approval':
      return `waits for a decision (${told('kind') ?? 'unknown kind'})`;
    case 'user.tool_confirmation':
    case 'user.output_approval':
      return told('decision') ?? 'decided';
    case 'human.navigate':
      return told('pathname') ?? '';
    case 'human.entity_view':
      return `${told('entity_type') ?? 'entity'} ${told('entity_id') ?? ''}`;
    default:
      return '';
  }
}

/** The value of a tool call or result: its arguments, or what came back. */
export function callValue(event: SessionEvent): unknown {
  const { content, metadata } = event as { content: unknown; metadata: unknown };
  const [part] = Array.isArray(content) ? content : [content];
  if (isRecord(part)) {
    for (const key of ['args', 'input', 'result', 'output', 'data', 'text']) {
      if (part[key] !== undefined) return part[key];
    }
  }
  if (Array.isArray(content) ? content.length > 0 : content !== null && content !== undefined) return content;
  return isRecord(metadata) ? (metadata['args'] ?? metadata['result']) : undefined;
}
