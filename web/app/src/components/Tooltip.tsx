/** A name beside what is pointed at or has the focus. Never the only place of something that a person must know. */
import { Tooltip as Radix } from 'radix-ui';
import type { ReactElement } from 'react';
import { Kbd } from './Kbd.js';

export interface TooltipProps {
  text: string;
  keys?: string | undefined;
  side?: 'top' | 'right' | 'bottom' | 'left' | undefined;
  children: ReactElement;
}

export function Tooltip({ text, keys, side = 'bottom', children }: TooltipProps) {
  return (
    <Radix.Root delayDuration={400}>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          side={side}
          sideOffset={6}
          className="z-50 flex items-center gap-2 rounded-control border border-line bg-raised px-2 py-1 text-meta text-ink shadow-layer"
        >
          {text}
          {keys !== undefined && <Kbd keys={keys} />}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

export const TooltipProvider = Radix.Provider;
