/** Tells a page about many changes at once: at most once a frame, and in a hidden tab, which has no frames, by a timer. */
import { isHidden } from './follow.js';

const HIDDEN_MS = 250;

/** A function that asks for a call of `work`; several asks before it runs are one. `cancel` forgets a pending call. */
export interface FrameBatch {
  ask(): void;
  cancel(): void;
}

export function oncePerFrame(work: () => void): FrameBatch {
  let cancelPending: (() => void) | undefined;
  const run = () => {
    cancelPending?.();
    cancelPending = undefined;
    work();
  };
  return {
    ask() {
      if (cancelPending !== undefined) return;
      if (isHidden() || typeof requestAnimationFrame === 'undefined') {
        const timer = setTimeout(run, HIDDEN_MS);
        cancelPending = () => clearTimeout(timer);
      } else {
        const frame = requestAnimationFrame(run);
        // A tab that is hidden before its frame comes must not wait until it is looked at again.
        const timer = setTimeout(run, HIDDEN_MS);
        cancelPending = () => {
          cancelAnimationFrame(frame);
          clearTimeout(timer);
        };
      }
    },
    cancel() {
      cancelPending?.();
      cancelPending = undefined;
    },
  };
}
