/** The pure rules by which hints and fresh rows change the list on screen: no row changes its place while a person looks. */
import { isValidSessionStatus, type Session, type SessionHint } from '@sederunt/react';

export interface SessionPage {
  items: readonly Session[];
  next_cursor?: string | null | undefined;
}

/** The rows with what the hints say of them. Deleted ones go. */
export function withHints(pages: readonly SessionPage[], hints: readonly SessionHint[]): readonly SessionPage[] {
  const byId = new Map(hints.map((hint) => [hint.id, hint]));
  return mapPages(pages, (row) => {
    const hint = byId.get(row.id);
    if (hint === undefined) return row;
    if (hint.deleted) return null;
    const status = isValidSessionStatus(hint.status) ? hint.status : row.status;
    const last_sequence = Math.max(row.last_sequence, hint.last_sequence);
    return status === row.status && last_sequence === row.last_sequence ? row : { ...row, status, last_sequence };
  });
}

/** The rows that are there, as they were read anew, and those that are not there yet, newest first. */
export function withFresh(pages: readonly SessionPage[], fresh: readonly Session[]) {
  const byId = new Map(fresh.map((row) => [row.id, row]));
  const updated = mapPages(pages, (row) => {
    const now = byId.get(row.id);
    byId.delete(row.id);
    return now === undefined || now.version < row.version ? row : now;
  });
  const unknown = [...byId.values()].sort((one, other) => other.last_activity_at.localeCompare(one.last_activity_at));
  return { pages: updated, unknown };
}

/** The rows with others on top. */
export function withOnTop(pages: readonly SessionPage[], rows: readonly Session[]): readonly SessionPage[] {
  const [first, ...rest] = pages;
  if (first === undefined || rows.length === 0) return pages;
  const ids = new Set(rows.map((row) => row.id));
  const others = mapPages([first, ...rest], (row) => (ids.has(row.id) ? null : row));
  const [top, ...below] = others as readonly [SessionPage, ...SessionPage[]];
  return [{ ...top, items: [...rows, ...top.items] }, ...below];
}

/** All rows once: a session that moved up while later pages were read stands on two of them. */
export function rowsOnce(pages: readonly SessionPage[]): readonly Session[] {
  const byId = new Map<string, Session>();
  for (const page of pages) for (const row of page.items) if (!byId.has(row.id)) byId.set(row.id, row);
  return [...byId.values()];
}

/** Pages and rows that do not change keep their identity. Null removes a row. */
function mapPages(pages: readonly SessionPage[], change: (row: Session) => Session | null): readonly SessionPage[] {
  let isChanged = false;
  const mapped = pages.map((page) => {
    const items = page.items.flatMap((row) => change(row) ?? []);
    const isSame = items.length === page.items.length && items.every((row, at) => row === page.items[at]);
    if (!isSame) isChanged = true;
    return isSame ? page : { ...page, items };
  });
  return isChanged ? mapped : pages;
}
