/** Documents and presence on the wire. Written by hand until the description of the API has them. */
import type { SessionEvent } from '../api/types.js';
import { isRecord } from '../vocabulary/content.js';
import type { LoggedPatch } from './documentState.js';
import type { JsonValue, PatchOp } from './jsonPatch.js';

export type DocumentKind = 'scratch' | 'entity' | 'view';

export interface DocumentRead {
  document: { kind: DocumentKind; id: string };
  /** The sequence of the document's last patch; 0: none. */
  sequence: number;
  value: JsonValue;
  digest: string;
}

export interface PatchAccepted {
  sequence: number;
  /** The patch was made on an older state and taken as it is, because nothing that it touches had changed. */
  rebased: boolean;
  inverse?: PatchOp[];
}

export interface PresentPerson {
  user_id: string | null;
  state: unknown;
  since: string;
}

export function documentPath(sessionId: string, kind: DocumentKind, documentId: string): string {
  const [session, document] = [sessionId, documentId].map(encodeURIComponent);
  return `/api/sessions/${session}/documents/${kind}/${document}`;
}

export function presencePath(sessionId: string): string {
  return `/api/sessions/${encodeURIComponent(sessionId)}/presence`;
}

/** The patch that an event of the log makes to this document; null for every other event. */
export function loggedPatch(event: SessionEvent, kind: DocumentKind, documentId: string): LoggedPatch | null {
  if (event.type !== 'state.patch' || !isRecord(event.metadata)) return null;
  const { document, ops } = event.metadata;
  if (!isRecord(document) || document['kind'] !== kind || document['id'] !== documentId) return null;
  return Array.isArray(ops) ? { sequence: event.sequence, ops: ops as PatchOp[] } : null;
}
