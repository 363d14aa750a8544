/** A list and its rows. A row is one link; what stands beside it (buttons, a menu) is not inside of it. */
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ListCursor } from '../keyboard/useListCursor.js';

export function List({ label, children }: { label: string; children: ReactNode }) {
  return (
    <ul aria-label={label} className="divide-y divide-line rounded-card border border-line bg-raised">
      {children}
    </ul>
  );
}

export interface ListRowProps {
  id: string;
  href: string;
  cursor?: ListCursor | undefined;
  /** The status or sign before the title. */
  lead?: ReactNode;
  title: ReactNode;
  /** Short facts after the title; they are cut before the title is. */
  facts?: ReactNode;
  actions?: ReactNode;
}

export function ListRow({ id, href, cursor, lead, title, facts, actions }: ListRowProps) {
  const { ref, ...rowProps } = cursor?.rowProps(id) ?? {};
  return (
    <li className="flex min-h-9 items-center gap-2 pr-2 has-data-[current=true]:bg-sunken hover:bg-sunken">
      <Link
        href={href}
        data-row=""
        {...rowProps}
        ref={ref ?? null}
        className="flex min-h-9 min-w-0 flex-1 items-center gap-3 rounded-control px-3 text-row"
      >
        {lead}
        <span dir="auto" className="min-w-0 flex-1 truncate">
          {title}
        </span>
        {facts !== undefined && <span className="flex shrink-0 items-center gap-3 text-meta text-soft">{facts}</span>}
      </Link>
      {actions !== undefined && <span className="flex shrink-0 gap-1">{actions}</span>}
    </li>
  );
}
