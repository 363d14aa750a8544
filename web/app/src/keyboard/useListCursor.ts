/** A list's cursor: `j` and `k` move it, `Enter` opens the row, and the row under it has the focus. */
import { useEffect, useRef, useState } from 'react';
import { entryRow, noteEntryRow } from '../lib/entryRow.js';
import { useKeys } from './KeyboardProvider.js';

export interface ListCursor {
  /** The id of the row under the cursor; undefined in an empty list, and before the first key. */
  current: string | undefined;
  moveTo: (id: string) => void;
  /** Spread over the row's link or button. */
  rowProps: (id: string) => {
    'data-current': boolean;
    ref: (element: HTMLElement | null) => void;
    onFocus: () => void;
    onClick: () => void;
  };
}

/** Nothing has the focus, or only the page as a whole. */
function isFocusFree(): boolean {
  const { activeElement } = document;
  return activeElement === null || activeElement === document.body || activeElement.matches('main');
}

/** `ids` are the rows in their order on screen. */
export function useListCursor(ids: readonly string[], onOpen: (id: string) => void): ListCursor {
  const [chosen, setChosen] = useState<string | undefined>();
  const elements = useRef(new Map<string, HTMLElement>());
  const at = chosen === undefined ? -1 : ids.indexOf(chosen);
  const current = at < 0 ? undefined : chosen;

  const moveTo = (id: string | undefined) => {
    if (id === undefined) return;
    setChosen(id);
    const element = elements.current.get(id);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: 'nearest' });
  };

  // Coming back to the list, the row that was opened has the focus again.
  const left = useRef(entryRow());
  const isBack = left.current !== undefined && ids.includes(left.current);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as soon as the row is there.
  useEffect(() => {
    if (!isBack) return;
    const row = left.current;
    left.current = undefined;
    if (isFocusFree()) moveTo(row);
  }, [isBack]);

  useKeys({
    next: () => moveTo(ids[Math.min(at + 1, ids.length - 1)]),
    previous: () => moveTo(ids[Math.max(at - 1, 0)]),
    open: () => {
      if (current === undefined) return false;
      noteEntryRow(current);
      onOpen(current);
      return true;
    },
  });

  return {
    current,
    moveTo,
    rowProps: (id) => ({
      'data-current': id === current,
      ref: (element) => {
        if (element === null) elements.current.delete(id);
        else elements.current.set(id, element);
      },
      onFocus: () => setChosen(id),
      onClick: () => noteEntryRow(id),
    }),
  };
}
