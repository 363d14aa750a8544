/** A document that several people and agents edit in one session: its value, and patches that show at once. */
import { useCallback, useEffect, useMemo, useReducer, useRef } from 'react';
import type { SederuntClient } from '../client/client.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { isPassing, isRefusal, type SederuntRefusal } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import * as documents from '../document/documentState.js';
import type { JsonValue, PatchOp } from '../document/jsonPatch.js';
import {
  type DocumentKind,
  type DocumentRead,
  documentPath,
  loggedPatch,
  type PatchAccepted,
} from '../document/wire.js';
import type { StreamPhase } from '../stream/follow.js';
import type { FeedReader } from '../stream/sessionFeed.js';
import { useFeedReader, useFeedState } from './useSessionRealtime.js';

/** How many patches can be taken back. */
const UNDO_MAX = 100;
const RETRY_MS_FIRST = 500;
const RETRY_MS_MAX = 10_000;

/** A patch that another writer was faster than. Nothing of it is in the document. */
export interface DocumentConflict {
  ops: readonly PatchOp[];
  /** The paths that both changed; empty if the server named none. */
  paths: readonly string[];
  /** Makes the patch again, on the newest value. */
  retry: () => void;
  discard: () => void;
}

export interface SessionDocument {
  /** With the page's own patches on it. Undefined until it was read. */
  value: JsonValue | undefined;
  /** The sequence of the last patch that the page knows. */
  sequence: number;
  patch: (ops: readonly PatchOp[]) => void;
  /** Some patches are not confirmed yet. */
  isSaving: boolean;
  conflict: DocumentConflict | null;
  /** Takes back the last patch of this page. */
  undo: () => void;
  canUndo: boolean;
  isLoading: boolean;
  error: Error | null;
  phase: StreamPhase;
}

interface RefusedPatch {
  ops: readonly PatchOp[];
  paths: readonly string[];
}

interface Shown {
  document: documents.DocumentState;
  conflict: RefusedPatch | null;
  undo: readonly (readonly PatchOp[])[];
  error: Error | null;
}

const NOTHING_SHOWN: Shown = { document: documents.EMPTY_DOCUMENT, conflict: null, undo: [], error: null };

function conflictPaths(refusal: SederuntRefusal): string[] {
  const { conflicts } = refusal.details;
  return Array.isArray(conflicts) ? conflicts.filter((path) => typeof path === 'string') : [];
}

/** Reads and writes one document, and tells when what is shown has changed. Lives as long as the component. */
class DocumentSession {
  shown: Shown = NOTHING_SHOWN;
  /** Shown while the document is read again. */
  lastValue: JsonValue | undefined;
  #isReading = false;
  #isSending = false;
  #tries = 0;
  #wait: ReturnType<typeof setTimeout> | undefined;
  #stop = new AbortController();
  readonly #client: SederuntClient;
  readonly #path: string;
  readonly #onChange: () => void;

  constructor(client: SederuntClient, path: string, onChange: () => void) {
    this.#client = client;
    this.#path = path;
    this.#onChange = onChange;
  }

  open(): void {
    if (this.#stop.signal.aborted) this.#stop = new AbortController();
  }

  close(): void {
    this.#stop.abort();
    clearTimeout(this.#wait);
  }

  change(document: documents.DocumentState, more: Partial<Shown> = {}): void {
    this.shown = { ...this.shown, ...more, document };
    this.#onChange();
    if (document.mustRead && document.confirmed !== undefined) void this.read();
    void this.#send();
  }

  /** Reads the document. Called after the place of the stream is known, so that no patch falls between the two. */
  async read(): Promise<void> {
    if (this.#isReading || this.#stop.signal.aborted) return;
    this.#isReading = true;
    const { signal } = this.#stop;
    this.shown = {
      ...this.shown,
      document: { ...this.shown.document, confirmed: undefined, early: [], mustRead: false },
    };
    try {
      const read = await this.#client.json<DocumentRead>(this.#path, { signal });
      this.#isReading = false;
      if (!signal.aborted) this.change(documents.takeRead(this.shown.document, read), { error: null });
    } catch (error) {
      this.#isReading = false;
      if (signal.aborted) return;
      this.change(this.shown.document, { error: error as Error });
      if (isPassing(error)) this.#later(() => void this.read());
    }
  }

  patch(ops: readonly PatchOp[], isUndo = false): void {
    if (ops.length === 0) return;
    const pending = { key: newIdempotencyKey(), ops, base: undefined, sequence: undefined, isUndo };
    this.change(documents.addPending(this.shown.document, pending));
  }

  undo(): void {
    const inverse = this.shown.undo.at(-1);
    if (inverse === undefined) return;
    this.shown = { ...this.shown, undo: this.shown.undo.slice(0, -1) };
    this.patch(inverse, true);
  }

  retryConflict(): void {
    const conflict = this.shown.conflict;
    this.discardConflict();
    if (conflict !== null) this.patch(conflict.ops);
  }

  discardConflict(): void {
    this.change(this.shown.document, { conflict: null });
  }

  #later(work: () => void, atLeastMs = 0): void {
    this.#tries += 1;
    const backOff = Math.min(RETRY_MS_MAX, RETRY_MS_FIRST * 2 ** (this.#tries - 1));
    clearTimeout(this.#wait);
    this.#wait = setTimeout(work, Math.max(backOff, atLeastMs));
  }

  async #send(): Promise<void> {
    const next = documents.nextToSend(this.shown.document);
    const confirmed = this.shown.document.confirmed;
    if (this.#isSending || next === undefined || confirmed === undefined || this.#stop.signal.aborted) return;
    this.#isSending = true;
    const base = next.base ?? confirmed.sequence;
    this.shown = { ...this.shown, document: documents.setBase(this.shown.document, next.key, base) };
    try {
      const accepted = await this.#client.json<PatchAccepted>(`${this.#path}/patch`, {
        method: 'POST',
        query: next.isUndo ? undefined : { inverse: true },
        body: { base_sequence: base, ops: next.ops },
        idempotencyKey: next.key,
      });
      this.#isSending = false;
      this.#tries = 0;
      this.#accept(next, accepted);
    } catch (error) {
      this.#isSending = false;
      this.#refuse(next.key, error);
    }
  }

  #accept(patch: documents.PendingPatch, accepted: PatchAccepted): void {
    const undo =
      patch.isUndo || accepted.inverse === undefined
        ? this.shown.undo
        : [...this.shown.undo, accepted.inverse].slice(-UNDO_MAX);
    const { sequence, rebased } = accepted;
    this.change(documents.takeAccepted(this.shown.document, patch.key, sequence, rebased), { undo, error: null });
  }

  #refuse(key: string, error: unknown): void {
    const refusal = isRefusal(error) ? error : undefined;
    // Signed out: the patch waits until the person is back, and is then sent once.
    if (isPassing(error) || refusal?.status === 401) {
      this.shown = { ...this.shown, error: error as Error };
      this.#onChange();
      this.#later(() => void this.#send(), refusal?.retryAfterMs);
      return;
    }
    const { state, dropped } = documents.takeRefused(this.shown.document, key);
    if (refusal?.code === 'stale_base') {
      this.change(state, { conflict: { ops: dropped, paths: conflictPaths(refusal) }, error: null });
    } else {
      this.change(state, { error: error as Error });
    }
  }
}

export function useSessionDocument(sessionId: string, kind: DocumentKind, documentId: string): SessionDocument {
  const { client } = useSederunt();
  const [, redraw] = useReducer((drawn: number) => drawn + 1, 0);
  const path = documentPath(sessionId, kind, documentId);
  const session = useMemo(() => new DocumentSession(client, path, redraw), [client, path]);
  useEffect(() => {
    session.open();
    return () => session.close();
  }, [session]);

  const reader = useMemo<FeedReader>(
    () => ({
      onEvents: (events) => {
        const patches = events.flatMap((event) => loggedPatch(event, kind, documentId) ?? []);
        if (patches.length > 0) session.change(patches.reduce(documents.takeLogged, session.shown.document));
      },
      onGap: () => session.change(documents.forgetConfirmed(session.shown.document)),
    }),
    [session, kind, documentId],
  );
  useFeedReader(sessionId, reader);
  const { phase, isReady, refusal } = useFeedState(sessionId);

  const hasRead = useRef<DocumentSession | null>(null);
  useEffect(() => {
    if (!isReady || hasRead.current === session) return;
    hasRead.current = session;
    void session.read();
  }, [isReady, session]);

  const patch = useCallback((ops: readonly PatchOp[]) => session.patch(ops), [session]);
  const undo = useCallback(() => session.undo(), [session]);
  const { document, conflict, undo: undoable, error } = session.shown;
  const newest = useMemo(() => documents.shownValue(document), [document]);
  if (newest !== undefined) session.lastValue = newest;
  const ended = phase === 'ended' ? refusal : undefined;
  return {
    value: session.lastValue,
    sequence: document.confirmed?.sequence ?? 0,
    patch,
    isSaving: document.pending.length > 0,
    conflict:
      conflict === null
        ? null
        : { ...conflict, retry: () => session.retryConflict(), discard: () => session.discardConflict() },
    undo,
    canUndo: undoable.length > 0,
    isLoading: document.confirmed === undefined && error === null && ended === undefined,
    error: error ?? ended ?? null,
    phase,
  };
}
