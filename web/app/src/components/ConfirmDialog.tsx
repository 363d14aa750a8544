/** Asks before something is taken away: names the thing, and what goes with it. The focus begins on leaving it as it is. */
import { AlertDialog as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { Button } from './Button.js';
import { useFocusReturn } from './useFocusReturn.js';

export interface ConfirmDialogProps {
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  /** Such as `Stop “Publish the forecast”?` */
  title: string;
  /** What goes with it. */
  children: ReactNode;
  /** A verb, such as `Stop`. */
  verb: string;
  onConfirm: () => void;
}

export function ConfirmDialog({ isOpen, onOpenChange, title, children, verb, onConfirm }: ConfirmDialogProps) {
  const focusReturn = useFocusReturn();
  return (
    <Radix.Root open={isOpen} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          {...focusReturn}
          className="layer-in fixed inset-x-4 top-[20vh] z-40 mx-auto grid max-w-md gap-4 rounded-card border border-line bg-raised p-6 shadow-layer"
        >
          <Radix.Title className="text-lead font-semibold">{title}</Radix.Title>
          <Radix.Description asChild>
            <div className="text-soft">{children}</div>
          </Radix.Description>
          <div className="flex justify-end gap-2">
            <Radix.Cancel asChild>
              <Button>Leave it</Button>
            </Radix.Cancel>
            <Radix.Action asChild>
              <Button kind="danger" onClick={onConfirm}>
                {verb}
              </Button>
            </Radix.Action>
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
