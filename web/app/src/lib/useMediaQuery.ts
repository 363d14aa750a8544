/** Whether a media query holds now. */
import { useCallback, useSyncExternalStore } from 'react';

/** Where the sidebar becomes a drawer and the panel a sheet. */
export const WIDE = '(min-width: 900px)';

export function useMediaQuery(query: string): boolean {
  const subscribe = useCallback(
    (listener: () => void) => {
      const list = matchMedia(query);
      list.addEventListener('change', listener);
      return () => list.removeEventListener('change', listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}
