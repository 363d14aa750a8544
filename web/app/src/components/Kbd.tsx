/** Keys as a person sees them on the keyboard. Screen readers hear them from `aria-keyshortcuts` of what they belong to. */
import { keyText } from '../keyboard/press.js';
import { classNames } from './classNames.js';

export interface KbdProps {
  /** As the keyboard map writes them, such as `mod+k` or `g t`. */
  keys: string;
  isOnAccent?: boolean | undefined;
  /** Read out too, where nothing else says the keys. */
  isSpoken?: boolean | undefined;
}

export function Kbd({ keys, isOnAccent = false, isSpoken = false }: KbdProps) {
  return (
    <kbd
      aria-hidden={isSpoken ? undefined : true}
      className={classNames(
        'rounded-control border px-1 font-mono text-meta whitespace-nowrap',
        isOnAccent ? 'border-current' : 'border-line bg-sunken text-soft',
      )}
    >
      {keyText(keys)}
    </kbd>
  );
}
