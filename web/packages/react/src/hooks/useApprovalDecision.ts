/** An approval, and a decision on it that can be taken back for some seconds before it is sent. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import type { Approval, Decide } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { approvalQueryKey } from '../vocabulary/queryKeys.js';
import { useHintRefetch } from './useHints.js';

const UNDO_MS = 5_000;
const STALE_MS = 30_000;

export function useApproval(approvalId: string) {
  const { client } = useSederunt();
  const queries = useQueryClient();
  const queryKey = approvalQueryKey(approvalId);
  useHintRefetch(
    (hint) => hint.topic === 'approvals',
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  return useQuery<Approval>({
    queryKey,
    queryFn: ({ signal }) => client.get('/api/approvals/{id}', { path: { id: approvalId }, signal }),
    staleTime: STALE_MS,
    retry: retryPassing,
  });
}

/** What a reviewer decides. Edits are named by what they replace. */
export type ApprovalVerdict = Pick<Decide, 'decision' | 'reason' | 'modified_args' | 'modified_output'>;

/** `waiting`: decided, and not sent yet. */
export type DecisionPhase = 'idle' | 'waiting' | 'sending' | 'decided' | 'refused';

export interface ApprovalDecision {
  phase: DecisionPhase;
  verdict: ApprovalVerdict | null;
  secondsLeft: number;
  error: Error | null;
  decide: (verdict: ApprovalVerdict) => void;
  undo: () => void;
}

interface PendingDecision {
  readonly approvalId: string;
  readonly body: Decide;
  readonly key: string;
}

function sendDecision(client: SederuntClient, pending: PendingDecision, keepalive: boolean): Promise<Approval> {
  return client.post('/api/approvals/{id}/decide', {
    path: { id: pending.approvalId },
    body: pending.body,
    idempotencyKey: pending.key,
    keepalive,
  });
}

export interface UseApprovalDecisionOptions {
  /** How long a decision can be taken back; 0 sends it at once. */
  undoMs?: number | undefined;
  onDecided?: ((approval: Approval) => void) | undefined;
}

/**
 * Decides on what the person saw: the digest goes with the decision. A person who leaves the page within the time to take
 * it back has decided, and the decision is sent.
 */
export function useApprovalDecision(approval: Approval, options: UseApprovalDecisionOptions = {}): ApprovalDecision {
  const { undoMs = UNDO_MS, onDecided } = options;
  const { client } = useSederunt();
  const queries = useQueryClient();
  const [phase, setPhase] = useState<DecisionPhase>('idle');
  const [verdict, setVerdict] = useState<ApprovalVerdict | null>(null);
  const [secondsLeft, setSecondsLeft] = useState(0);
  const [error, setError] = useState<Error | null>(null);
  const pending = useRef<PendingDecision | null>(null);
  const timer = useRef<ReturnType<typeof setInterval> | undefined>(undefined);
  const isMounted = useRef(true);
  const latestOnDecided = useRef(onDecided);
  latestOnDecided.current = onDecided;

  const send = useCallback(
    async (keepalive: boolean) => {
      clearInterval(timer.current);
      const decision = pending.current;
      pending.current = null;
      if (decision === null) return;
      if (isMounted.current) setPhase('sending');
      try {
        const decided = await sendDecision(client, decision, keepalive);
        queries.setQueryData(approvalQueryKey(decided.id), decided);
        latestOnDecided.current?.(decided);
        if (isMounted.current) setPhase('decided');
      } catch (refusal) {
        void queries.invalidateQueries({ queryKey: approvalQueryKey(decision.approvalId) });
        if (!isMounted.current) return;
        setError(refusal as Error);
        setPhase('refused');
      }
    },
    [client, queries],
  );

  useEffect(() => {
    isMounted.current = true;
    const onPageHide = () => void send(true);
    window.addEventListener('pagehide', onPageHide);
    return () => {
      isMounted.current = false;
      window.removeEventListener('pagehide', onPageHide);
      void send(true);
    };
  }, [send]);

  const decide = useCallback(
    (made: ApprovalVerdict) => {
      if (pending.current !== null) return;
      pending.current = {
        approvalId: approval.id,
        body: { ...made, digest: approval.digest },
        key: newIdempotencyKey(),
      };
      setError(null);
      setVerdict(made);
      if (undoMs <= 0) {
        void send(false);
        return;
      }
      const endsAt = Date.now() + undoMs;
      setSecondsLeft(Math.ceil(undoMs / 1000));
      setPhase('waiting');
      timer.current = setInterval(() => {
        const left = endsAt - Date.now();
        if (left <= 0) void send(false);
        else setSecondsLeft(Math.ceil(left / 1000));
      }, 250);
    },
    [approval.id, approval.digest, send, undoMs],
  );

  const undo = useCallback(() => {
    if (pending.current === null) return;
    clearInterval(timer.current);
    pending.current = null;
    setVerdict(null);
    setPhase('idle');
  }, []);

  return { phase, verdict, secondsLeft, error, decide, undo };
}
