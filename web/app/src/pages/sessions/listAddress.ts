/** Where the list of sessions was last looked at, filters included: the way back from one of them leads there. */

let search = '';

export function noteListSearch(now: string): void {
  search = now;
}

export function listAddress(): string {
  return `/sessions${search}`;
}
