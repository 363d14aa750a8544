/** Mount it once: records visits while a human session runs, and opens the marker by its key. */
import { useEffect, useState } from 'react';
import { useActiveHumanSession } from '../hooks/useActiveHumanSession.js';
import { useActivityRecorder } from '../hooks/useActivityRecorder.js';
import { innermostTarget, isMacPlatform, isMarkerShortcut } from '../vocabulary/shortcut.js';
import { QuickMarkerDialog } from './QuickMarkerDialog.js';

export function ActivityRecorderMount() {
  const { session, recordMarkerAsync } = useActiveHumanSession();
  const sessionId = session?.status === 'running' && session.id !== '' ? session.id : null;
  const [isOpen, setOpen] = useState(false);
  useActivityRecorder(sessionId);

  const isActive = sessionId !== null;
  useEffect(() => {
    if (!isActive) return undefined;
    const isMac = isMacPlatform(navigator.platform);
    const onKeyDown = (event: KeyboardEvent) => {
      if (!isMarkerShortcut(event, { isActive, isMac, target: innermostTarget(event) })) return;
      event.preventDefault();
      setOpen(true);
    };
    window.addEventListener('keydown', onKeyDown);
    return () => window.removeEventListener('keydown', onKeyDown);
  }, [isActive]);

  return <QuickMarkerDialog isOpen={isOpen && isActive} onOpenChange={setOpen} onSubmit={recordMarkerAsync} />;
}
