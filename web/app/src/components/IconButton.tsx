/** A button that is a sign. Its name is read out, and shown with its key when it is pointed at or has the focus. */
import type { ButtonHTMLAttributes, ReactNode } from 'react';
import { bindingOf, type KeyId } from '../keyboard/keymap.js';
import { ariaKeys } from '../keyboard/press.js';
import { classNames } from './classNames.js';
import { Tooltip } from './Tooltip.js';

export interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'aria-label'> {
  label: string;
  shortcut?: KeyId | undefined;
  children: ReactNode;
}

export function IconButton({ label, shortcut, className, children, ...rest }: IconButtonProps) {
  const keys = shortcut === undefined ? undefined : bindingOf(shortcut).keys[0];
  return (
    <Tooltip text={label} keys={keys}>
      <button
        type="button"
        {...rest}
        aria-label={label}
        aria-keyshortcuts={keys === undefined ? undefined : ariaKeys(keys)}
        className={classNames(
          'inline-grid size-7 shrink-0 place-items-center rounded-control text-soft hover:bg-sunken hover:text-ink pointer-coarse:size-11',
          className,
        )}
      >
        {children}
      </button>
    </Tooltip>
  );
}
