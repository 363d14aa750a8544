/** A part of a page with its heading, a figure beside it, and actions at the right. */
import { type ReactNode, useId } from 'react';

export interface SectionProps {
  title: string;
  count?: number | undefined;
  actions?: ReactNode;
  /** For links within the page, such as a bucket of the strip. */
  anchor?: string | undefined;
  children: ReactNode;
}

export function Section({ title, count, actions, anchor, children }: SectionProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} id={anchor} className="scroll-mt-4">
      <div className="flex min-h-9 items-center gap-2">
        <h2 id={id} className="text-row font-semibold text-soft">
          {title}
        </h2>
        {count !== undefined && <span className="figures text-row text-soft">{count}</span>}
        {actions !== undefined && <div className="ml-auto flex gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  );
}
