/** Hints about the whole tenant: which sessions, approvals and counts have changed. */
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { useSederunt } from '../context.js';
import type { StreamPhase } from '../stream/follow.js';
import type { Hint } from '../stream/hintFeed.js';
import { createRefetchGate } from '../stream/refetchGate.js';

/** Calls `onHint` for each hint while the component is there. All tabs of a browser share one stream. */
export function useHints(onHint: (hint: Hint) => void): void {
  const { hints } = useSederunt();
  const latest = useRef(onHint);
  latest.current = onHint;
  useEffect(() => hints.hear((hint) => latest.current(hint)), [hints]);
}

/** Whether hints arrive, for a sign of the connection. */
export function useHintPhase(): StreamPhase {
  const { hints } = useSederunt();
  return useSyncExternalStore(hints.subscribePhase, hints.phase, () => 'connecting');
}

/** Reads a list again for hints that concern it: at most once a second, and not while the tab is hidden. */
export function useHintRefetch(concerns: (hint: Hint) => boolean, refetch: () => void): void {
  const latest = useRef({ concerns, refetch });
  latest.current = { concerns, refetch };
  const gate = useRef<ReturnType<typeof createRefetchGate> | null>(null);
  useEffect(() => {
    gate.current = createRefetchGate(() => latest.current.refetch());
    return () => gate.current?.close();
  }, []);
  useHints((hint) => {
    if (hint.topic === 'reset' || latest.current.concerns(hint)) gate.current?.ask();
  });
}
