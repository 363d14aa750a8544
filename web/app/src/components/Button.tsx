/** A button with a verb on it, and its key where it has one. */
import type { ButtonHTMLAttributes, Ref } from 'react';
import { bindingOf, type KeyId } from '../keyboard/keymap.js';
import { ariaKeys } from '../keyboard/press.js';
import { classNames } from './classNames.js';
import { Kbd } from './Kbd.js';

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** `primary`: the one thing to do here. `ghost`: without an edge. `danger`: takes something away. */
  kind?: 'plain' | 'primary' | 'ghost' | 'danger' | undefined;
  /** Shows the key of the map that does the same. The page says by `useKey` what the key does. */
  shortcut?: KeyId | undefined;
  /** The call is under way: a second press does nothing, and the focus stays. */
  isBusy?: boolean | undefined;
  ref?: Ref<HTMLButtonElement> | undefined;
}

const LOOKS = {
  plain: 'border border-edge bg-raised hover:bg-sunken',
  primary: 'border border-transparent bg-accent text-on-accent font-semibold hover:opacity-90',
  ghost: 'border border-transparent text-soft hover:bg-sunken hover:text-ink',
  danger: 'border border-error bg-raised text-error hover:bg-removed',
};

export function Button({
  kind = 'plain',
  shortcut,
  isBusy = false,
  className,
  children,
  onClick,
  ...rest
}: ButtonProps) {
  const keys = shortcut === undefined ? undefined : bindingOf(shortcut).keys[0];
  return (
    <button
      type="button"
      {...rest}
      aria-disabled={isBusy || undefined}
      aria-keyshortcuts={keys === undefined ? undefined : ariaKeys(keys)}
      onClick={(event) => {
        if (isBusy) event.preventDefault();
        else onClick?.(event);
      }}
      className={classNames(
        'inline-flex min-h-7 items-center justify-center gap-2 rounded-control px-3 text-row disabled:opacity-50 aria-disabled:opacity-50',
        LOOKS[kind],
        className,
      )}
    >
      {children}
      {keys !== undefined && <Kbd keys={keys} isOnAccent={kind === 'primary'} />}
    </button>
  );
}
