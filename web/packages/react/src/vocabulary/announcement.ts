/** What a screen reader is told of a message: one sentence, so that it does not read on while others write. */

const CHARS_MAX = 200;
/** Texts are looked at only this far. */
const LOOKED_AT_CHARS = 1_000;

/** The first sentence of a text, on one line; cut where it is long. A number with a dot ends none. */
export function firstSentence(text: string): string {
  const line = text.slice(0, LOOKED_AT_CHARS).replace(/\s+/g, ' ').trim();
  const end = /[^\d\s][.!?…]+(?= |$)|[。！？]/.exec(line);
  const sentence = end === null ? line : line.slice(0, end.index + end[0].length);
  if (sentence.length <= CHARS_MAX) return sentence;
  // Not between the two halves of a character.
  const half = sentence.charCodeAt(CHARS_MAX - 2);
  return `${sentence.slice(0, half >= 0xd800 && half <= 0xdbff ? CHARS_MAX - 2 : CHARS_MAX - 1)}…`;
}
