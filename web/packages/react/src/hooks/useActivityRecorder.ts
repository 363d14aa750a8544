/** Records the pages that a person visits while a human session runs. */
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { watchPathname } from '../activity/pathname.js';
import { ActivityRecorder } from '../activity/recorder.js';
import { useSederunt } from '../context.js';

function usePathname(): string {
  const { pathname } = useSederunt();
  const read = () => window.location.pathname;
  const ofBrowser = useSyncExternalStore(watchPathname, read, () => '/');
  return pathname ?? ofBrowser;
}

/**
 * Sends visits every five seconds, and at once when the tab is hidden. Null records nothing. Mount it once, where it covers
 * every page.
 */
export function useActivityRecorder(sessionId: string | null): void {
  const { client } = useSederunt();
  const pathname = usePathname();
  const recorder = useRef<ActivityRecorder | null>(null);

  useEffect(() => {
    if (sessionId === null) return undefined;
    const current = new ActivityRecorder(client, sessionId);
    recorder.current = current;
    const onHide = () => {
      if (document.visibilityState === 'hidden') current.flushForGood();
    };
    const onPageHide = () => current.flushForGood();
    document.addEventListener('visibilitychange', onHide);
    window.addEventListener('pagehide', onPageHide);
    return () => {
      document.removeEventListener('visibilitychange', onHide);
      window.removeEventListener('pagehide', onPageHide);
      recorder.current = null;
      void current.flush();
    };
  }, [client, sessionId]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new session is told where the person is.
  useEffect(() => recorder.current?.visit(pathname), [pathname, sessionId, client]);
}
