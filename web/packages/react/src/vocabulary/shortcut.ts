/** When a key press opens the marker. */

/** What the rule reads of a `KeyboardEvent`. */
export interface KeyPress {
  key: string;
  code?: string;
  metaKey: boolean;
  ctrlKey: boolean;
  shiftKey: boolean;
  altKey: boolean;
  repeat?: boolean;
  isComposing?: boolean;
  defaultPrevented?: boolean;
}

const TYPING_SURFACES = 'input, textarea, select, [contenteditable]:not([contenteditable="false" i])';

/** Whether a person types there. */
export function isTypingSurface(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(TYPING_SURFACES) !== null;
}

/** The element that has the key press, inside of shadow roots too. */
export function innermostTarget(event: Event): EventTarget | null {
  return event.composedPath()[0] ?? event.target;
}

export function isMacPlatform(platform: string): boolean {
  return /^(mac|iphone|ipad)/i.test(platform);
}

function isLetterM(press: KeyPress): boolean {
  // Keyboards without Latin letters tell their own letter, and where the key is.
  const isLatin = /^[a-z]$/i.test(press.key);
  return isLatin ? press.key.toLowerCase() === 'm' : press.code === 'KeyM' && press.key.length === 1;
}

/** Cmd+M on a Mac, Ctrl+M elsewhere, with no further modifier, while a session runs, and not where a person types. */
export function isMarkerShortcut(
  press: KeyPress,
  where: { isActive: boolean; isMac: boolean; target: EventTarget | null },
): boolean {
  if (!where.isActive || press.repeat === true || press.isComposing === true || press.defaultPrevented === true) {
    return false;
  }
  const hasModifier = where.isMac ? press.metaKey && !press.ctrlKey : press.ctrlKey && !press.metaKey;
  if (!hasModifier || press.shiftKey || press.altKey) return false;
  return isLetterM(press) && !isTypingSurface(where.target);
}
