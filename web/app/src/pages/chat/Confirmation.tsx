/** A call of a tool that waits for the person's permission, inline, with the time that is left. */
import { ApprovalDetail, useApproval } from '@sederunt/react';
import { useEffect, useState } from 'react';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { InlineDecision } from '../../decisions/InlineDecision.js';

/** A decision that is made later than this before the end is sent at once: it could not be taken back in time. */
const HURRY_MS = 15_000;

function useMsLeft(until: string | null): number | null {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (until === null) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [until]);
  const end = until === null ? Number.NaN : Date.parse(until);
  return Number.isNaN(end) ? null : Math.max(0, end - now);
}

function clock(ms: number): string {
  const seconds = Math.ceil(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

export function Confirmation({ approvalId }: { approvalId: string }) {
  const { data: approval, error, refetch } = useApproval(approvalId);
  const isPending = approval?.state === 'pending';
  const leftMs = useMsLeft(isPending ? approval.expires_at : null);
  if (approval === undefined) {
    return error === null ? <Skeleton rows={2} /> : <ErrorState error={error} onRetry={() => void refetch()} />;
  }
  return (
    <section
      aria-label="Wants your permission"
      className="rounded-card border border-edge bg-raised px-4 py-3 [&_.sdr-approval]:border-0 [&_.sdr-approval]:p-0"
    >
      <div className="mb-1 flex flex-wrap items-center gap-2 text-row text-soft">
        <span>{isPending ? 'Wants your permission' : 'Decided'}</span>
        {leftMs !== null && (
          <span role="timer" className="figures ml-auto">
            {clock(leftMs)} left
          </span>
        )}
      </div>
      {isPending ? (
        <InlineDecision approval={approval} undoMs={leftMs !== null && leftMs < HURRY_MS ? 0 : undefined} />
      ) : (
        <ApprovalDetail approval={approval} canDecide={false} />
      )}
    </section>
  );
}
