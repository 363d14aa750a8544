/** What a page tells the frame around it: its title, what stands beside it, and the panel at the right. */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from 'react';
import { createPortal } from 'react-dom';

export interface PageTitle {
  text: string;
  /** The link before the title, such as back to the list. */
  back?: { href: string; label: string /** The row of the list that leads here. */; row?: string } | undefined;
}

interface PageFrame {
  title: PageTitle;
  setTitle: (title: PageTitle) => void;
  headerSlot: HTMLElement | null;
  setHeaderSlot: (element: HTMLElement | null) => void;
  panelSlot: HTMLElement | null;
  setPanelSlot: (element: HTMLElement | null) => void;
  /** How many components put something into the panel. */
  panelUsers: number;
  setPanelUsers: (change: (before: number) => number) => void;
}

const FrameContext = createContext<PageFrame | null>(null);

const NO_TITLE: PageTitle = { text: '' };

export function PageFrameProvider({ children }: { children: ReactNode }) {
  const [title, setTitle] = useState(NO_TITLE);
  const [headerSlot, setHeaderSlot] = useState<HTMLElement | null>(null);
  const [panelSlot, setPanelSlot] = useState<HTMLElement | null>(null);
  const [panelUsers, setPanelUsers] = useState(0);
  const frame = useMemo(
    () => ({ title, setTitle, headerSlot, setHeaderSlot, panelSlot, setPanelSlot, panelUsers, setPanelUsers }),
    [title, headerSlot, panelSlot, panelUsers],
  );
  return <FrameContext value={frame}>{children}</FrameContext>;
}

export function usePageFrame(): PageFrame {
  const frame = useContext(FrameContext);
  if (frame === null) throw new Error('Put <PageFrameProvider> around this component.');
  return frame;
}

/** Names the page: its heading, and the tab. */
export function usePageTitle(text: string, back?: PageTitle['back']): void {
  const { setTitle } = usePageFrame();
  const href = back?.href;
  const label = back?.label;
  const row = back?.row;
  useEffect(() => {
    const to = href === undefined || label === undefined ? undefined : { href, label };
    setTitle({ text, back: to && (row === undefined ? to : { ...to, row }) });
  }, [setTitle, text, href, label, row]);
}

/** Puts filters, a status or buttons beside the title. */
export function PageHeader({ children }: { children: ReactNode }) {
  const { headerSlot } = usePageFrame();
  return headerSlot === null ? null : createPortal(children, headerSlot);
}

/** Puts something into the panel at the right, which is a sheet on narrow screens. `]` shows and hides it. */
export function PagePanel({ children }: { children: ReactNode }) {
  const { panelSlot, setPanelUsers } = usePageFrame();
  useEffect(() => {
    setPanelUsers((before) => before + 1);
    return () => setPanelUsers((before) => before - 1);
  }, [setPanelUsers]);
  return panelSlot === null ? null : createPortal(children, panelSlot);
}
