/** Where the controls of a chat stand: beside the title, and on narrow screens in a row of their own beneath it. */
import { createContext, type ReactNode, useContext } from 'react';
import { createPortal } from 'react-dom';
import { PageHeader } from '../../shell/pageFrame.js';

/** The row of narrow screens; undefined on wide ones, null until it is there. */
export const NarrowBarContext = createContext<HTMLElement | null | undefined>(undefined);

export function ChatBar({ children }: { children: ReactNode }) {
  const row = useContext(NarrowBarContext);
  const controls = <span className="ml-auto flex flex-wrap items-center gap-2">{children}</span>;
  if (row === undefined) return <PageHeader>{controls}</PageHeader>;
  return row === null ? null : createPortal(controls, row);
}
