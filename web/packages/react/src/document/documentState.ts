/**
 * A shared document as one page sees it: what the server has confirmed, and the page's own patches on their way. Pure: it
 * decides what is shown and what is sent next; the hook sends.
 */
import { applyPatch, type JsonValue, PatchError, type PatchOp } from './jsonPatch.js';

/** A patch of this page. `sequence` is set once the server has taken it and its event has not arrived yet. */
export interface PendingPatch {
  readonly key: string;
  readonly ops: readonly PatchOp[];
  /** The base that it was sent with; kept for repetitions, which must have the same body. */
  readonly base: number | undefined;
  readonly sequence: number | undefined;
  readonly isUndo: boolean;
}

/** A patch of the document from the log. */
export interface LoggedPatch {
  readonly sequence: number;
  readonly ops: readonly PatchOp[];
}

export interface DocumentState {
  /** Undefined until the document was read. */
  readonly confirmed: { readonly value: JsonValue; readonly sequence: number } | undefined;
  readonly pending: readonly PendingPatch[];
  /** Patches of the log that came before the document was read. */
  readonly early: readonly LoggedPatch[];
  /** The log has a patch that does not fit: the document must be read again. */
  readonly mustRead: boolean;
}

export const EMPTY_DOCUMENT: DocumentState = { confirmed: undefined, pending: [], early: [], mustRead: false };

/** Patches that are kept while the document is read; more than that, and it is read again. */
const EARLY_PATCHES_MAX = 1_000;

function tried(value: JsonValue, ops: readonly PatchOp[]): JsonValue | undefined {
  try {
    return applyPatch(value, ops);
  } catch (error) {
    if (error instanceof PatchError) return undefined;
    throw error;
  }
}

/** What the page shows: the confirmed value with the page's own patches on it, as far as they fit. */
export function shownValue(state: DocumentState): JsonValue | undefined {
  if (state.confirmed === undefined) return undefined;
  return state.pending.reduce<JsonValue>((value, { ops }) => tried(value, ops) ?? value, state.confirmed.value);
}

/** A patch from the log. Each is applied once; a repetition changes nothing. */
export function takeLogged(state: DocumentState, patch: LoggedPatch): DocumentState {
  if (state.confirmed === undefined) {
    const mustRead = state.mustRead || state.early.length >= EARLY_PATCHES_MAX;
    return mustRead ? { ...state, early: [], mustRead } : { ...state, early: [...state.early, patch] };
  }
  if (patch.sequence <= state.confirmed.sequence) return state;
  const value = tried(state.confirmed.value, patch.ops);
  if (value === undefined) return { ...state, mustRead: true };
  const pending = state.pending.filter((own) => own.sequence !== patch.sequence);
  return { ...state, confirmed: { value, sequence: patch.sequence }, pending };
}

/** The document as it was read; patches that came meanwhile are applied to it. What was missed meanwhile is read again. */
export function takeRead(state: DocumentState, read: { value: JsonValue; sequence: number }): DocumentState {
  const pending = state.pending.filter((own) => own.sequence === undefined || own.sequence > read.sequence);
  const fresh: DocumentState = { confirmed: read, pending, early: [], mustRead: state.mustRead };
  return state.early.reduce(takeLogged, fresh);
}

/** Something was missed: nothing is confirmed until the document is read again. */
export function forgetConfirmed(state: DocumentState): DocumentState {
  return { ...state, early: [], mustRead: true };
}

export function addPending(state: DocumentState, patch: PendingPatch): DocumentState {
  return { ...state, pending: [...state.pending, patch] };
}

/** The next patch to send: one at a time, since each is made on the one before. */
export function nextToSend(state: DocumentState): PendingPatch | undefined {
  if (state.confirmed === undefined || state.mustRead) return undefined;
  // A patch that was taken and is not in the log yet would make the base of the next one wrong.
  const [first] = state.pending;
  return first?.sequence === undefined ? first : undefined;
}

export function setBase(state: DocumentState, key: string, base: number): DocumentState {
  return { ...state, pending: state.pending.map((own) => (own.key === key ? { ...own, base } : own)) };
}

/** The server has taken a patch. If nothing came in between, it is confirmed at once; else its event will do that. */
export function takeAccepted(state: DocumentState, key: string, sequence: number, rebased: boolean): DocumentState {
  const own = state.pending.find((patch) => patch.key === key);
  if (own === undefined || state.confirmed === undefined) return state;
  const others = state.pending.filter((patch) => patch !== own);
  if (sequence <= state.confirmed.sequence) return { ...state, pending: others };
  if (!rebased && own.base === state.confirmed.sequence) {
    const value = tried(state.confirmed.value, own.ops);
    if (value !== undefined) return { ...state, confirmed: { value, sequence }, pending: others };
  }
  return { ...state, pending: state.pending.map((patch) => (patch === own ? { ...own, sequence } : patch)) };
}

/** The server has refused a patch. What the page made on top of it goes with it. */
export function takeRefused(state: DocumentState, key: string): { state: DocumentState; dropped: readonly PatchOp[] } {
  const at = state.pending.findIndex((patch) => patch.key === key);
  if (at < 0) return { state, dropped: [] };
  const dropped = state.pending.slice(at).flatMap((patch) => patch.ops);
  return { state: { ...state, pending: state.pending.slice(0, at) }, dropped };
}
