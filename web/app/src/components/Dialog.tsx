/** A layer over the page that has the focus until it is closed, and gives it back. */
import { X } from 'lucide-react';
import { Dialog as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { classNames } from './classNames.js';
import { useFocusReturn } from './useFocusReturn.js';

export interface DialogProps {
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  title: string;
  description?: ReactNode;
  /** Wider than a form. */
  isWide?: boolean | undefined;
  children: ReactNode;
}

function Heading({ title, description }: Pick<DialogProps, 'title' | 'description'>) {
  return (
    <div className="pr-8">
      <Radix.Title className="text-lead font-semibold">{title}</Radix.Title>
      {description !== undefined && <Radix.Description className="text-row text-soft">{description}</Radix.Description>}
    </div>
  );
}

/** Comes last, so that the focus begins on the first thing to do in the layer. */
function CloseButton() {
  return (
    <Radix.Close
      aria-label="Close"
      className="absolute top-4 right-4 grid size-7 place-items-center rounded-control text-soft hover:bg-sunken pointer-coarse:size-11"
    >
      <X size={16} aria-hidden="true" />
    </Radix.Close>
  );
}

export function Dialog({ isOpen, onOpenChange, title, description, isWide = false, children }: DialogProps) {
  const described = description === undefined ? { 'aria-describedby': undefined } : {};
  const focusReturn = useFocusReturn();
  return (
    <Radix.Root open={isOpen} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          {...described}
          {...focusReturn}
          className={classNames(
            'layer-in fixed inset-x-4 top-[10vh] z-40 mx-auto grid max-h-[80vh] gap-4 overflow-y-auto rounded-card border border-line bg-raised p-6 shadow-layer',
            isWide ? 'max-w-3xl' : 'max-w-md',
          )}
        >
          <Heading title={title} description={description} />
          {children}
          <CloseButton />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** The same from the side, for what is a panel or a sidebar on wide screens. */
export function Sheet({ side, ...props }: Omit<DialogProps, 'isWide'> & { side: 'left' | 'right' }) {
  const described = props.description === undefined ? { 'aria-describedby': undefined } : {};
  const focusReturn = useFocusReturn();
  return (
    <Radix.Root open={props.isOpen} onOpenChange={props.onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          {...described}
          {...focusReturn}
          className={classNames(
            'layer-in fixed inset-y-0 z-40 flex w-[min(360px,88vw)] flex-col gap-4 overflow-y-auto border-line bg-paper p-4 shadow-layer',
            side === 'left' ? 'left-0 border-r' : 'right-0 border-l',
          )}
        >
          <Heading title={props.title} description={props.description} />
          {props.children}
          <CloseButton />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
