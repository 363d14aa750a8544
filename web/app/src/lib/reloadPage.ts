/** Loads the app anew: everything in memory goes. */
export function reloadPage(): void {
  location.reload();
}
