/** What a session is called on screen, and where its page is. */
export interface Named {
  id: string;
  title?: string | null | undefined;
}

export function sessionName({ id, title }: Named): string {
  const trimmed = title?.trim() ?? '';
  return trimmed === '' ? id : trimmed;
}

export function sessionAddress(id: string, sequence?: number | null): string {
  const address = `/sessions/${encodeURIComponent(id)}`;
  return sequence === undefined || sequence === null ? address : `${address}?seq=${sequence}`;
}
