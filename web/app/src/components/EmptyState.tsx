/** What a list says when it has no rows: what is, then what to do. */
import type { ReactNode } from 'react';

export function EmptyState({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className="grid justify-items-start gap-3 px-3 py-6 text-soft">
      <p>{children}</p>
      {action}
    </div>
  );
}
