/**
 * Whether a text is cheap to format. Parsers of markdown take long, or overflow the stack, on texts that were made to do that;
 * this reads a text once, from its beginning to its end, and knows nothing of what it means.
 */

export const BYTES_MAX = 20 * 1024;
export const NESTING_MAX = 20;
export const COLUMNS_MAX = 100;

const SPACES_PER_LEVEL = 2;

function bytesOf(text: string): number {
  // Every UTF-16 unit is at most three bytes, so most texts need no encoding to be known as short or long.
  if (text.length > BYTES_MAX) return text.length;
  return text.length * 3 <= BYTES_MAX ? text.length : new TextEncoder().encode(text).length;
}

/** How deep the line is in lists and quotes, by its indentation and its leading signs. */
function leadDepth(line: string): number {
  const lead = /^[\s>]*/.exec(line)?.[0] ?? '';
  let spaces = 0;
  let quotes = 0;
  for (const sign of lead) {
    if (sign === '>') quotes += 1;
    else spaces += sign === '\t' ? 4 : 1;
  }
  const items = /^(?:(?:[-*+]|\d{1,9}[.)])\s+)+/.exec(line.slice(lead.length))?.[0].trim().split(/\s+/).length ?? 0;
  return quotes + Math.floor(spaces / SPACES_PER_LEVEL) + items;
}

/** How many brackets are open at once, at the most. */
function bracketDepth(line: string, openBefore: number): { deepest: number; open: number } {
  let open = openBefore;
  let deepest = openBefore;
  for (const sign of line) {
    if (sign === '[' || sign === '(' || sign === '{' || sign === '<') open += 1;
    else if (sign === ']' || sign === ')' || sign === '}' || sign === '>') open = Math.max(0, open - 1);
    deepest = Math.max(deepest, open);
  }
  return { deepest, open };
}

/** Runs of `*`, `_`, `~` and backticks that open something, in one paragraph. Closing ones are as many. */
function markRuns(line: string): number {
  return line.match(/[*_~`]+/g)?.length ?? 0;
}

/** More of these in a paragraph is no emphasis of a person or an agent. */
const MARKS_MAX = 400;

export function isCheapToFormat(text: string): boolean {
  if (bytesOf(text) > BYTES_MAX) return false;
  let open = 0;
  let marks = 0;
  let isFenced = false;
  for (const line of text.split('\n')) {
    if (/^\s*(```|~~~)/.test(line)) {
      isFenced = !isFenced;
      continue;
    }
    if (isFenced) continue;
    if (line.trim() === '') {
      open = 0;
      marks = 0;
      continue;
    }
    const brackets = bracketDepth(line.replace(/^[\s>]*/, ''), open);
    open = brackets.open;
    marks += markRuns(line);
    const columns = line.split('|').length - 1;
    if (leadDepth(line) > NESTING_MAX || brackets.deepest > NESTING_MAX) return false;
    if (columns > COLUMNS_MAX || marks > MARKS_MAX) return false;
  }
  return true;
}
