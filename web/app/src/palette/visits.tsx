/** What the person has looked at while the app is open, newest first: the palette begins with it. Nothing of it is stored. */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from 'react';

export interface Visit {
  href: string;
  title: string;
}

const KEPT_MAX = 7;

const VisitsContext = createContext<readonly Visit[]>([]);
const NoteContext = createContext<(visit: Visit) => void>(() => undefined);

export function VisitsProvider({ children }: { children: ReactNode }) {
  const [visits, setVisits] = useState<readonly Visit[]>([]);
  const note = useMemo(
    () => (visit: Visit) =>
      setVisits((before) => [visit, ...before.filter(({ href }) => href !== visit.href)].slice(0, KEPT_MAX)),
    [],
  );
  return (
    <NoteContext value={note}>
      <VisitsContext value={visits}>{children}</VisitsContext>
    </NoteContext>
  );
}

export function useVisits(): readonly Visit[] {
  return useContext(VisitsContext);
}

/** Notes that this is on the screen. */
export function useNoteVisit(href: string, title: string): void {
  const note = useContext(NoteContext);
  useEffect(() => note({ href, title }), [note, href, title]);
}
