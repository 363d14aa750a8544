/** Where a person goes back to after signing in: a path of this app and nothing else. */

const SIGN_IN = '/sign-in';

export function signInAddress(from: string): string {
  const isWorthKeeping = from !== '/' && !from.startsWith(SIGN_IN);
  return isWorthKeeping ? `${SIGN_IN}?to=${encodeURIComponent(from)}` : SIGN_IN;
}

/** The path in `?to=`; Today where it is missing, leads to another site or back to signing in. */
export function returnPath(search: string, origin = location.origin): string {
  const to = new URLSearchParams(search).get('to') ?? '/';
  if (!to.startsWith('/') || !URL.canParse(to, origin)) return '/';
  const address = new URL(to, origin);
  if (address.origin !== origin || address.pathname.startsWith(SIGN_IN)) return '/';
  const path = address.pathname + address.search + address.hash;
  // `/.//other.example` is resolved to a path that begins with two slashes, which a browser would take for a host.
  return path.startsWith('//') ? '/' : path;
}
