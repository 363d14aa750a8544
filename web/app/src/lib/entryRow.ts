/** The row of a list from which a person went on, kept with the list's own entry of the history: the way back leads to it. */

function isWithRow(state: unknown): state is { row: string } {
  return typeof state === 'object' && state !== null && 'row' in state && typeof state.row === 'string';
}

/** The row that the entry names. It may hold anything: other code of the page may write there too. */
export function entryRow(state: unknown = history.state): string | undefined {
  return isWithRow(state) ? state.row : undefined;
}

/** The state of an entry that leads back to a row. */
export function leadingTo(row: string) {
  return { row } as const;
}

/** Notes the row in the entry on screen, before another one follows it. */
export function noteEntryRow(row: string): void {
  const state: unknown = history.state;
  history.replaceState({ ...(typeof state === 'object' ? state : {}), ...leadingTo(row) }, '');
}
