/** From the events of a conversation to what its page shows: the rows, whether a reply is being written, and the sitting. */
import { contentText, metadataText, type SessionEvent, saidText } from '@sederunt/react';

interface RowBase {
  /** The sequence of its event. */
  readonly key: number;
  readonly event: SessionEvent;
}

export interface SaidRow extends RowBase {
  readonly kind: 'said';
  readonly by: 'person' | 'agent';
  /** Waits until the reply before it is done. */
  readonly isWaiting: boolean;
  /** The reply was stopped or broke off. */
  readonly isCut: boolean;
  /** Answers words of distress: what helps comes first. */
  readonly isCrisis: boolean;
}

export interface CallRow extends RowBase {
  readonly kind: 'call';
  readonly result: SessionEvent | undefined;
}

export interface NoteRow extends RowBase {
  readonly kind: 'thinking' | 'failure' | 'stopped' | 'ended' | 'other';
}

export type ChatRow = SaidRow | CallRow | NoteRow;

/** How the last sitting ended. */
export interface EndedSitting {
  sequence: number;
  /** When it began, as far as the log is loaded: what was rated since is this sitting. */
  begunAt: string;
  reason: string;
  turnCount: number;
  summary: string | undefined;
  openLoops: readonly string[];
}

export interface Conversation {
  rows: readonly ChatRow[];
  /** What the log says last about the status; undefined where the loaded part says nothing. */
  status: string | undefined;
  /** The call that waits for a decision. */
  approvalId: string | undefined;
  hasOpenSitting: boolean;
  /** The last sitting, if it has ended and no message came since. */
  ended: EndedSitting | undefined;
  /** The last reply asks whether to end. */
  suggestsEnd: boolean;
  /** The answer to words of distress in the last sitting. */
  crisisText: string | undefined;
}

/** From this level on the reply is the crisis response. */
const CRISIS_LEVEL = 2;

type Fields = Readonly<Record<string, unknown>>;

function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function metadataOf(event: SessionEvent): Fields {
  return fields(event.metadata);
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string' && one.trim() !== '') : [];
}

export function readEnded(event: SessionEvent, begunAt = event.at): EndedSitting {
  const metadata = metadataOf(event);
  const memory = fields(fields(metadata['state'])['session_memory']);
  const turnCount = metadata['turn_count'];
  const summary = memory['summary'];
  return {
    sequence: event.sequence,
    begunAt,
    reason: metadataText(event, 'reason') ?? '',
    turnCount: typeof turnCount === 'number' ? turnCount : 0,
    summary: typeof summary === 'string' && summary.trim() !== '' ? summary : undefined,
    openLoops: texts(memory['open_loops']),
  };
}

/** What the log says about its turns; a turn is named by the sequence of the message that it answers. */
interface Turns {
  /** Where each began. */
  begun: ReadonlyMap<number, number>;
  /** Messages that have been answered, or that were handed to another turn. */
  done: ReadonlySet<number>;
  crises: ReadonlySet<number>;
  /** Turns with a reply. */
  answered: ReadonlySet<number>;
}

function isBeginning(event: SessionEvent): boolean {
  return event.type === 'session.status_change' && metadataOf(event)['to'] === 'running';
}

function isCrisisTurn(event: SessionEvent): boolean {
  const level = fields(fields(metadataOf(event)['state'])['crisis'])['level'];
  return typeof level === 'number' && level >= CRISIS_LEVEL;
}

/** The messages that were handed to a turn while it ran. */
function takenBy(event: SessionEvent): readonly unknown[] {
  const taken = metadataOf(event)['took'];
  return Array.isArray(taken) ? taken : [];
}

function readTurns(events: readonly SessionEvent[]): Turns {
  const begun = new Map<number, number>();
  const done = new Set<number>();
  const crises = new Set<number>();
  const answered = new Set<number>();
  for (const event of events) {
    const turn = event.turn ?? -1;
    if (isBeginning(event) && !begun.has(turn)) begun.set(turn, event.sequence);
    if (event.type === 'agent.message') answered.add(turn);
    if (event.type !== 'session.turn') continue;
    done.add(turn);
    for (const taken of takenBy(event)) done.add(Number(taken));
    if (isCrisisTurn(event)) crises.add(turn);
  }
  return { begun, done, crises, answered };
}

function rowOf(event: SessionEvent, turns: Turns, isBusy: boolean): ChatRow | null {
  const base = { key: event.sequence, event };
  const turn = event.turn ?? -1;
  switch (event.type) {
    case 'user.message': {
      const isWaiting = isBusy && !turns.begun.has(event.sequence) && !turns.done.has(event.sequence) && turn >= 0;
      return { ...base, kind: 'said', by: 'person', isWaiting, isCut: false, isCrisis: false };
    }
    case 'agent.message': {
      if (saidText(event) === '' && contentText(event.content) !== '') return null;
      const isCut = metadataOf(event)['interrupted'] === true;
      return { ...base, kind: 'said', by: 'agent', isWaiting: false, isCut, isCrisis: turns.crises.has(turn) };
    }
    case 'agent.tool_call':
    case 'agent.tool_result':
      return { ...base, kind: 'call', result: event.type === 'agent.tool_result' ? event : undefined };
    case 'agent.thinking':
      return { ...base, kind: 'thinking' };
    case 'session.error':
      return { ...base, kind: 'failure' };
    case 'session.turn':
      return metadataOf(event)['outcome'] === 'stopped' && !turns.answered.has(turn)
        ? { ...base, kind: 'stopped' }
        : null;
    case 'session.sitting_ended':
      return { ...base, kind: 'ended' };
    default:
      return /^(session|state|human|tool|user)\./.test(event.type) ? null : { ...base, kind: 'other' };
  }
}

/** Where a row stands: a message that waited stands where its turn began, and one that still waits stands last. */
function placeOf(row: ChatRow, turns: Turns): number {
  if (row.kind !== 'said' || row.by !== 'person') return row.key;
  if (row.isWaiting) return Number.POSITIVE_INFINITY;
  return Math.max(row.key, turns.begun.get(row.key) ?? 0);
}

/** Puts each result beside its call. */
function joinResults(rows: readonly ChatRow[]): ChatRow[] {
  const calls = new Map<string, number>();
  const joined: ChatRow[] = [];
  for (const row of rows) {
    const id = row.kind === 'call' ? metadataText(row.event, 'tool_call_id') : undefined;
    const at = id === undefined ? undefined : calls.get(id);
    const call = at === undefined ? undefined : joined[at];
    if (row.kind === 'call' && row.result !== undefined && at !== undefined && call?.kind === 'call') {
      joined[at] = { ...call, result: row.result };
      continue;
    }
    if (id !== undefined && row.kind === 'call' && row.result === undefined) calls.set(id, joined.length);
    joined.push(row);
  }
  return joined;
}

function lastOf(events: readonly SessionEvent[], isIt: (event: SessionEvent) => boolean): SessionEvent | undefined {
  return events.findLast(isIt);
}

export function isBusyStatus(status: string | undefined): boolean {
  return status === 'running' || status === 'awaiting_tool' || status === 'pending';
}

/** The last sitting as far as it is loaded. */
function readSitting(events: readonly SessionEvent[], turns: Turns) {
  const border = lastOf(
    events,
    (one) => one.type === 'session.sitting_started' || one.type === 'session.sitting_ended',
  );
  const start = lastOf(events, (one) => one.type === 'session.sitting_started');
  const begun = start?.sequence ?? 0;
  const said = lastOf(events, (one) => one.type === 'user.message' || one.type === 'agent.message');
  const isOver = border?.type === 'session.sitting_ended' && (said === undefined || said.sequence < border.sequence);
  const crisis = lastOf(
    events,
    (one) => one.type === 'agent.message' && one.sequence > begun && turns.crises.has(one.turn ?? -1),
  );
  return {
    hasOpenSitting: border === undefined ? said !== undefined : border.type === 'session.sitting_started',
    ended: isOver && border !== undefined ? readEnded(border, (start ?? events[0])?.at) : undefined,
    crisisText: crisis === undefined ? undefined : contentText(crisis.content),
    lastSaid: said,
  };
}

/** `knownStatus` is that of the session's row, for a log whose loaded part says nothing about it. */
export function readConversation(events: readonly SessionEvent[], knownStatus?: string): Conversation {
  const turns = readTurns(events);
  const change = lastOf(events, (one) => one.type === 'session.status_change');
  const status = change === undefined ? undefined : metadataText(change, 'to');
  const isBusy = isBusyStatus(status ?? knownStatus);
  const shown = events.flatMap((event) => rowOf(event, turns, isBusy) ?? []);
  const placed = joinResults(shown).map((row) => ({ row, place: placeOf(row, turns) }));
  placed.sort((a, b) => a.place - b.place || a.row.key - b.row.key);
  const asked = lastOf(events, (one) => one.type === 'session.waiting_approval');
  const { lastSaid, ...sitting } = readSitting(events, turns);
  return {
    ...sitting,
    rows: placed.map(({ row }) => row),
    status,
    approvalId:
      (status ?? knownStatus) === 'awaiting_tool' && asked !== undefined
        ? metadataText(asked, 'approval_id')
        : undefined,
    suggestsEnd:
      sitting.hasOpenSitting &&
      !isBusy &&
      lastSaid?.type === 'agent.message' &&
      metadataText(lastSaid, 'session_action') === 'suggest_end_session',
  };
}
