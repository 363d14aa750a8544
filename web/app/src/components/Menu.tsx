/** A menu behind a button: actions with their signs and keys. */
import { DropdownMenu as Radix } from 'radix-ui';
import type { ReactElement, ReactNode } from 'react';
import { bindingOf, type KeyId } from '../keyboard/keymap.js';
import { ariaKeys } from '../keyboard/press.js';
import { classNames } from './classNames.js';
import { Kbd } from './Kbd.js';

export interface MenuProps {
  /** The button that opens it. */
  trigger: ReactElement;
  isOpen?: boolean | undefined;
  onOpenChange?: ((isOpen: boolean) => void) | undefined;
  /** `MenuItem`s and `MenuSeparator`s. */
  children: ReactNode;
}

export function Menu({ trigger, isOpen, onOpenChange, children }: MenuProps) {
  const control = isOpen === undefined ? {} : { open: isOpen };
  return (
    <Radix.Root {...control} {...(onOpenChange === undefined ? {} : { onOpenChange })}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          className="layer-in z-50 min-w-44 rounded-card border border-line bg-raised p-1 text-row shadow-layer"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

export interface MenuItemProps {
  onSelect: () => void;
  icon?: ReactNode;
  shortcut?: KeyId | undefined;
  isDanger?: boolean | undefined;
  isDisabled?: boolean | undefined;
  children: ReactNode;
}

export function MenuItem({ onSelect, icon, shortcut, isDanger = false, isDisabled = false, children }: MenuItemProps) {
  const keys = shortcut === undefined ? undefined : bindingOf(shortcut).keys[0];
  return (
    <Radix.Item
      onSelect={onSelect}
      disabled={isDisabled}
      aria-keyshortcuts={keys === undefined ? undefined : ariaKeys(keys)}
      className={classNames(
        'flex min-h-7 items-center gap-2 rounded-control px-2 outline-none data-disabled:opacity-50 data-highlighted:bg-sunken',
        isDanger && 'text-error',
      )}
    >
      {icon}
      <span className="flex-1">{children}</span>
      {keys !== undefined && <Kbd keys={keys} />}
    </Radix.Item>
  );
}

export function MenuSeparator() {
  return <Radix.Separator className="my-1 h-px bg-line" />;
}
