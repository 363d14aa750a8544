/** Five buckets of work with their counts. What picking one means is the host's decision. */
import type { WorkQueueCounts } from '../api/types.js';
import { classNames } from './classNames.js';

export type WorkQueueBucket = keyof WorkQueueCounts;

const BUCKETS: readonly { bucket: WorkQueueBucket; words: (count: number) => string }[] = [
  { bucket: 'needs_me', words: (count) => (count === 1 ? 'needs you' : 'need you') },
  { bucket: 'running', words: () => 'running' },
  { bucket: 'delegatable', words: () => 'can be handed over' },
  { bucket: 'failed', words: () => 'failed' },
  { bucket: 'done_today', words: () => 'done today' },
];

export interface WorkQueueCommandStripProps {
  /** Undefined while they are read. */
  counts: WorkQueueCounts | undefined;
  onPick?: ((bucket: WorkQueueBucket) => void) | undefined;
  className?: string | undefined;
}

export function WorkQueueCommandStrip({ counts, onPick, className }: WorkQueueCommandStripProps) {
  return (
    <nav
      data-sdr=""
      className={classNames('sdr-strip', className)}
      aria-label="Work queue"
      aria-busy={counts === undefined}
    >
      {BUCKETS.map(({ bucket, words }) => {
        const count = counts?.[bucket];
        return (
          <button
            key={bucket}
            type="button"
            className="sdr-bucket"
            data-bucket={bucket}
            disabled={count === undefined}
            onClick={() => onPick?.(bucket)}
          >
            <span className="sdr-figure">{count ?? '–'}</span> {words(count ?? 0)}
          </button>
        );
      })}
    </nav>
  );
}
