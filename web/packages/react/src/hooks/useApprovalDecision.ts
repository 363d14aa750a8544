/** An approval, and a decision on it that can be taken back for some seconds before it is sent. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { Approval } from '../api/types.js';
import type { ApprovalInContext } from '../approval/context.js';
import { type ApprovalVerdict, DecisionOutbox, type PendingDecision } from '../approval/outbox.js';
import { passingRetryDelay, retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { approvalQueryKey } from '../vocabulary/queryKeys.js';
import { useHintRefetch } from './useHints.js';

export const UNDO_MS = 5_000;
const STALE_MS = 30_000;
const TICK_MS = 250;

/** With `context`: the session, task, entity, contract and criteria around it, as far as the person may see them. */
export function useApproval(approvalId: string) {
  const { client } = useSederunt();
  const queries = useQueryClient();
  const queryKey = approvalQueryKey(approvalId);
  useHintRefetch(
    (hint) => hint.topic === 'approvals',
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  return useQuery<ApprovalInContext>({
    queryKey,
    queryFn: ({ signal }) =>
      client.json<ApprovalInContext>(`/api/approvals/${encodeURIComponent(approvalId)}`, {
        query: { expand: 'context' },
        signal,
      }),
    staleTime: STALE_MS,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
  });
}

export type DecisionPhase = 'idle' | PendingDecision['phase'];

export interface ApprovalDecision {
  phase: DecisionPhase;
  verdict: ApprovalVerdict | null;
  secondsLeft: number;
  error: Error | null;
  /** The approval as another person has decided it meanwhile. */
  settled?: Approval | undefined;
  /** What the person saw when they decided. */
  seen?: Approval | undefined;
  decide: (verdict: ApprovalVerdict) => void;
  undo: () => void;
}

/** One approval's part of an outbox. */
export function useOutboxDecision(outbox: DecisionOutbox, approval: Approval, undoMs = UNDO_MS): ApprovalDecision {
  const decision = useSyncExternalStore(outbox.subscribe, outbox.decisions).get(approval.id);
  const isWaiting = decision?.phase === 'waiting';
  const [now, setNow] = useState(0);
  useEffect(() => {
    if (!isWaiting) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  const left = isWaiting ? decision.endsAt - (now || Date.now()) : 0;
  return {
    phase: decision?.phase ?? 'idle',
    verdict: decision?.verdict ?? null,
    secondsLeft: Math.max(0, Math.ceil(left / 1000)),
    error: decision?.error ?? null,
    settled: decision?.settled,
    seen: decision?.seen,
    decide: (verdict) => outbox.decide(approval, verdict, undoMs),
    undo: () => outbox.undo(approval.id),
  };
}

/** An outbox that sends what waits when the page or the component goes away. */
export function useDecisionOutbox(events: {
  onDecided?: ((approval: Approval) => void) | undefined;
  onRefused?: ((decision: PendingDecision & { error: Error }) => void) | undefined;
}): DecisionOutbox {
  const { client } = useSederunt();
  const queries = useQueryClient();
  const latest = useRef(events);
  latest.current = events;
  const outbox = useMemo(
    () =>
      new DecisionOutbox(client, {
        onDecided: (decided) => {
          queries.setQueryData<ApprovalInContext>(approvalQueryKey(decided.id), (before) => ({
            ...before,
            ...decided,
          }));
          latest.current.onDecided?.(decided);
        },
        onRefused: (refused) => {
          void queries.invalidateQueries({ queryKey: approvalQueryKey(refused.seen.id) });
          latest.current.onRefused?.(refused);
        },
      }),
    [client, queries],
  );
  useEffect(() => {
    const leave = () => outbox.sendAll(true);
    window.addEventListener('pagehide', leave);
    return () => {
      window.removeEventListener('pagehide', leave);
      leave();
    };
  }, [outbox]);
  return outbox;
}

export interface UseApprovalDecisionOptions {
  /** How long a decision can be taken back; 0 sends it at once. */
  undoMs?: number | undefined;
  onDecided?: ((approval: Approval) => void) | undefined;
}

/** Decides on one approval. For decisions on several, or that outlive their component, see {@link useDecisionOutbox}. */
export function useApprovalDecision(approval: Approval, options: UseApprovalDecisionOptions = {}): ApprovalDecision {
  const outbox = useDecisionOutbox({ onDecided: options.onDecided });
  return useOutboxDecision(outbox, approval, options.undoMs);
}
