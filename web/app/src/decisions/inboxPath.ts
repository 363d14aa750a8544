/** Where an approval is shown, and what is begun with it there. */
export function inboxPath(approvalId: string, begin?: 'edit' | 'reject'): string {
  const path = `/inbox/${encodeURIComponent(approvalId)}`;
  return begin === undefined ? path : `${path}?do=${begin}`;
}
