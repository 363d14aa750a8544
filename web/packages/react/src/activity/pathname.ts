/** The path of the page, for apps that hand none to the provider. */

/** Calls `onChange` whenever the page's address changes, by links, by back and forward, or by a router. */
export function watchPathname(onChange: () => void): () => void {
  const navigation = (window as { navigation?: EventTarget }).navigation;
  if (navigation !== undefined) {
    navigation.addEventListener('currententrychange', onChange);
    return () => navigation.removeEventListener('currententrychange', onChange);
  }
  return watchHistory(onChange);
}

type HistoryMethod = History['pushState'];

/** Browsers without the Navigation API do not report `pushState`, so it is wrapped while a component watches. */
function watchHistory(onChange: () => void): () => void {
  const wrap = (method: HistoryMethod): HistoryMethod =>
    function wrapped(this: History, ...given) {
      method.apply(this, given);
      onChange();
    };
  const { pushState, replaceState } = history;
  const wrappedPush = wrap(pushState);
  const wrappedReplace = wrap(replaceState);
  history.pushState = wrappedPush;
  history.replaceState = wrappedReplace;
  window.addEventListener('popstate', onChange);
  return () => {
    window.removeEventListener('popstate', onChange);
    // Another library may have wrapped them since; then its wrapper stays, and ours calls a listener that is gone.
    if (history.pushState === wrappedPush) history.pushState = pushState;
    if (history.replaceState === wrappedReplace) history.replaceState = replaceState;
  };
}
