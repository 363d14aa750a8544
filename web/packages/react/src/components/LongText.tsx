/** A text of any length: long ones are folded, so that a line of 256 KiB costs a page no more than a short one. */
import { type ReactNode, useState } from 'react';

const LINES_FOLDED = 12;
const CHARS_FOLDED = 2_000;

/** The beginning of a text that is shown at first, or null if all of it is. */
function foldedText(text: string): string | null {
  let end = -1;
  for (let line = 0; line < LINES_FOLDED; line += 1) {
    end = text.indexOf('\n', end + 1);
    if (end < 0) break;
  }
  const cut = Math.min(end < 0 ? text.length : end, CHARS_FOLDED);
  if (cut >= text.length) return null;
  // Not between the two halves of a character.
  const half = text.charCodeAt(cut - 1);
  return text.slice(0, half >= 0xd800 && half <= 0xdbff ? cut - 1 : cut);
}

export interface LongTextProps {
  text: string;
  isCode?: boolean;
  /** Draws the text; left out, it is shown as it is. Folded texts are always shown as they are. */
  render?: ((text: string) => ReactNode) | undefined;
}

export function LongText({ text, isCode = false, render }: LongTextProps) {
  const [isOpen, setOpen] = useState(false);
  const folded = foldedText(text);
  const className = isCode ? 'sdr-text sdr-code' : 'sdr-text';
  if (folded === null || isOpen) {
    return (
      <div className={className} dir="auto">
        {render === undefined || isCode ? text : render(text)}
      </div>
    );
  }
  return (
    <>
      <div className={className} dir="auto">
        {folded}…
      </div>
      <button type="button" className="sdr-link" aria-expanded={false} onClick={() => setOpen(true)}>
        Show all ({text.length.toLocaleString()} characters)
      </button>
    </>
  );
}
