/** The text of a reply that is still being written. Pieces say where they start in bytes of UTF-8, not in characters. */

export interface ReplyText {
  readonly text: string;
  /** Where in the reply the text starts and ends, in bytes. */
  readonly start: number;
  readonly end: number;
}

export const NO_REPLY: ReplyText = { text: '', start: 0, end: 0 };

const encoder = new TextEncoder();

/** The text up to a byte; a character that the byte would cut is left out. */
function cutAtByte(text: string, bytes: number): string {
  const kept = new TextDecoder().decode(encoder.encode(text).subarray(0, Math.max(0, bytes)));
  return kept.endsWith('\uFFFD') && !text.startsWith(kept) ? kept.slice(0, -1) : kept;
}

/** The reply after one more piece: the piece replaces everything from its offset on. */
export function addPiece(reply: ReplyText, piece: { text: string; offset: number }): ReplyText {
  const end = piece.offset + encoder.encode(piece.text).length;
  if (piece.offset === reply.end) return { text: reply.text + piece.text, start: reply.start, end };
  if (piece.offset > reply.end || piece.offset <= reply.start) return { text: piece.text, start: piece.offset, end };
  const kept = cutAtByte(reply.text, piece.offset - reply.start);
  return { text: kept + piece.text, start: reply.start, end };
}
