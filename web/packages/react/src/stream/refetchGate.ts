/** Hints are many. This lets a list be read again at most once a second, and only while its tab is visible. */
import { isHidden } from './follow.js';

const GATE_MS = 1_000;

export interface RefetchGate {
  ask(): void;
  close(): void;
}

/** Runs `refetch` at once, then at most once a second; a hidden tab waits until it is looked at. */
export function createRefetchGate(refetch: () => void): RefetchGate {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsked = false;

  const run = () => {
    if (timer !== undefined || isHidden()) {
      isAsked = true;
      return;
    }
    isAsked = false;
    timer = setTimeout(() => {
      timer = undefined;
      if (isAsked) run();
    }, GATE_MS);
    refetch();
  };
  const onVisibility = () => {
    if (isAsked) run();
  };
  document.addEventListener('visibilitychange', onVisibility);
  return {
    ask: run,
    close() {
      clearTimeout(timer);
      isAsked = false;
      document.removeEventListener('visibilitychange', onVisibility);
    },
  };
}
