/** Which keys of the map a key press is. */
import { isTypingSurface, type KeyPress } from '@sederunt/react';
import { KEYMAP, type KeyBinding } from './keymap.js';

/** What the rules read of a `KeyboardEvent`. */
export interface Press extends KeyPress {
  getModifierState?: (name: string) => boolean;
}

export interface PressPlace {
  target: EventTarget | null;
  isMac: boolean;
  /** The key before it, where that one began a sequence such as `g t`. */
  prefix: string | null;
  /** Whether keys without ⌘ or Ctrl that are one character work at all. */
  lettersAreOn: boolean;
}

export const isMac = /^(mac|iphone|ipad)/i.test(navigator.platform);

const LAYERS = '[role="dialog"], [role="alertdialog"], [role="menu"], [role="listbox"], dialog';
const PRESSED_BY_ENTER =
  'a[href], button, summary, [role="button"], [role="tab"], [role="menuitem"], [role="checkbox"]';

/** The name of a key as the map writes it; on keyboards without Latin letters, by where the key is. */
export function keyName(press: Press): string {
  const code = /^Key([A-Z])$/.exec(press.code ?? '')?.[1];
  if (press.key.length === 1 && /[^\x20-\x7e]/.test(press.key) && code !== undefined) {
    return press.shiftKey ? code : code.toLowerCase();
  }
  return press.key;
}

/** The key with `mod+` before it; null where other modifiers are held. */
export function chordOf(press: Press, onMac: boolean): string | null {
  // Some keyboards type [ and ] with AltGr, which is told as Ctrl and Alt together.
  const isTyped = press.getModifierState?.('AltGraph') === true;
  const hasMod = !isTyped && (onMac ? press.metaKey : press.ctrlKey);
  const hasOther = !isTyped && (press.altKey || (onMac ? press.ctrlKey : press.metaKey));
  if (hasOther) return null;
  const name = keyName(press);
  if (!hasMod) return name;
  if (press.shiftKey) return null;
  return `mod+${name.length === 1 ? name.toLowerCase() : name}`;
}

/** One character without ⌘ or Ctrl, which WCAG 2.1.4 asks to be able to switch off. */
export function isLetterKey(keys: string): boolean {
  return keys.split(' ').every((key) => key.length === 1);
}

function worksThere(binding: KeyBinding, keys: string, where: PressPlace): boolean {
  if (binding.isElsewhere === true) return false;
  if (isLetterKey(keys) && !where.lettersAreOn) return false;
  const { target } = where;
  if (binding.worksWhileTyping !== true) {
    if (isTypingSurface(target)) return false;
    if (target instanceof Element && target.closest(LAYERS) !== null) return false;
  }
  const isPressed = keys === 'Enter' && target instanceof Element && target.closest(PRESSED_BY_ENTER) !== null;
  return !isPressed;
}

/** The bindings that a key press may mean, and whether it begins a sequence. */
export function bindingsFor(press: Press, where: PressPlace): { found: readonly KeyBinding[]; prefix: string | null } {
  const none = { found: [], prefix: null };
  if (press.isComposing === true || press.defaultPrevented === true) return none;
  const chord = chordOf(press, where.isMac);
  if (chord === null) return none;
  const matching = (wanted: string) =>
    KEYMAP.filter((binding) => binding.keys.some((keys) => keys === wanted && worksThere(binding, keys, where)));
  const sequence = where.prefix === null ? [] : matching(`${where.prefix} ${chord}`);
  if (sequence.length > 0) return { found: sequence, prefix: null };
  const begins = KEYMAP.some((binding) =>
    binding.keys.some((keys) => keys.startsWith(`${chord} `) && worksThere(binding, keys, where)),
  );
  return { found: matching(chord), prefix: begins ? chord : null };
}

const SYMBOLS: Readonly<Record<string, string>> = {
  Enter: '↵',
  Escape: 'Esc',
};

/** A key in the signs of the person's keyboard: `⌘K`, `Ctrl K`, `g t`. */
export function keyText(keys: string, onMac = isMac): string {
  const chord = keys.startsWith('mod+') ? keys.slice(4) : null;
  const sign = (key: string) => SYMBOLS[key] ?? key;
  if (chord === null) return sign(keys);
  const key = chord.length === 1 ? chord.toUpperCase() : sign(chord);
  return onMac ? `⌘${key}` : `Ctrl ${key}`;
}

/** The same for `aria-keyshortcuts`. Sequences cannot be told there. */
export function ariaKeys(keys: string, onMac = isMac): string | undefined {
  if (keys.includes(' ')) return undefined;
  return keys.replace('mod+', onMac ? 'Meta+' : 'Control+');
}
