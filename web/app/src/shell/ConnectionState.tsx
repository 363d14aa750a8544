/** Whether what is on the screen is live, in words. */
import { type StreamPhase, useHintPhase } from '@sederunt/react';
import { useEffect, useRef, useState } from 'react';
import { useSignIn } from '../auth/SignInProvider.js';
import { classNames } from '../components/classNames.js';

const BACK_SHOWN_MS = 3_000;

const WORDS: Record<StreamPhase, string> = {
  connecting: 'Connecting…',
  live: 'Live',
  reconnecting: 'Lost the server. Trying again…',
  paused: 'Paused while hidden',
  ended: 'Not live. Reload the page.',
};

/** True for a moment after a lost stream has come back. */
function useIsBack(phase: StreamPhase): boolean {
  const [isBack, setBack] = useState(false);
  const wasLost = useRef(false);
  useEffect(() => {
    if (phase === 'reconnecting') wasLost.current = true;
    if (phase !== 'live' || !wasLost.current) {
      setBack(false);
      return undefined;
    }
    wasLost.current = false;
    setBack(true);
    const timer = setTimeout(() => setBack(false), BACK_SHOWN_MS);
    return () => clearTimeout(timer);
  }, [phase]);
  return isBack;
}

export interface ConnectionStateProps {
  /** Only a sign while all is well. It is the one that is read out: the words stand twice on wide screens. */
  isShort?: boolean | undefined;
}

export function ConnectionState({ isShort = false }: ConnectionStateProps) {
  const phase = useHintPhase();
  const isBack = useIsBack(phase);
  const { isSignedOut, signInAgain } = useSignIn();
  if (isSignedOut) {
    return (
      <button type="button" className="min-h-7 text-row text-error underline" onClick={signInAgain}>
        Signed out. Sign in again.
      </button>
    );
  }
  const words = isBack ? 'Back. Nothing was missed.' : WORDS[phase];
  const isLive = phase === 'live';
  return (
    <span role={isShort ? 'status' : undefined} className="flex items-center gap-2 text-row text-soft">
      <span
        aria-hidden="true"
        className={classNames(
          'size-2 rounded-full',
          isLive ? 'bg-completed' : 'bg-waiting-human',
          phase === 'connecting' && 'breathing',
        )}
      />
      <span className={isShort && isLive && !isBack ? 'sr-only' : undefined}>{words}</span>
    </span>
  );
}
