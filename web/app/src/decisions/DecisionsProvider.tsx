/** Decisions of the person that are on their way, whichever page they are on: five seconds to take them back, then they are sent. */
import {
  type Approval,
  type ApprovalVerdict,
  type DecisionOutbox,
  isRefusal,
  type PendingDecision,
  refusalSentence,
  useDecisionOutbox,
  workQueueCountsQueryKey,
} from '@sederunt/react';
import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useMemo, useRef, useSyncExternalStore } from 'react';
import { useLocation } from 'wouter';
import { useToast } from '../components/ToastProvider.js';
import { approvalListQueryKey, bucketQueryKey } from '../data/queryKeys.js';
import { inboxPath } from './inboxPath.js';

const UNDO_MS = 5_000;

export interface Decisions {
  outbox: DecisionOutbox;
  /** Decides on each of them alike, and offers to take all of it back for `undoMs`; 0 sends it at once. */
  decide: (approvals: readonly Approval[], verdict: ApprovalVerdict, undoMs?: number) => void;
  /** Says that a question has been answered. */
  answered: (approval: Approval) => void;
}

const DecisionsContext = createContext<Decisions | null>(null);

export function useDecisions(): Decisions {
  const decisions = useContext(DecisionsContext);
  if (decisions === null) throw new Error('Put <DecisionsProvider> around this component.');
  return decisions;
}

/** Those of the approvals on which the person has not decided yet. */
export function useUndecided<T>(
  items: readonly T[],
  approvalOf: (item: T) => Approval | null | undefined,
): readonly T[] {
  const { outbox } = useDecisions();
  const decisions = useSyncExternalStore(outbox.subscribe, outbox.decisions);
  return items.filter((item) => {
    const phase = decisions.get(approvalOf(item)?.id ?? '')?.phase;
    return phase === undefined || phase === 'refused';
  });
}

function useRefusalToast() {
  const { show } = useToast();
  const [, navigate] = useLocation();
  return ({ error, seen, settled }: PendingDecision & { error: Error }) => {
    const { text } = refusalSentence(error, settled);
    const id = isRefusal(error) && error.requestId !== undefined ? ` (id ${error.requestId})` : '';
    const open = { verb: 'Open', run: () => navigate(inboxPath(seen.id)) };
    show({ text: `Not decided: ${text}${id}`, action: open, durationMs: 12_000 });
  };
}

export function DecisionsProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const { show } = useToast();
  const onRefused = useRefusalToast();
  const readAgain = () => {
    void queries.invalidateQueries({ queryKey: approvalListQueryKey() });
    void queries.invalidateQueries({ queryKey: bucketQueryKey('needs_me') });
    void queries.invalidateQueries({ queryKey: workQueueCountsQueryKey() });
  };
  const outbox = useDecisionOutbox({
    onDecided: readAgain,
    onRefused: (refused) => {
      readAgain();
      onRefused(refused);
    },
  });
  const latestReadAgain = useRef(readAgain);
  latestReadAgain.current = readAgain;
  const decisions = useMemo<Decisions>(
    () => ({
      outbox,
      answered: (approval) => {
        queries.setQueriesData<{ items: readonly Approval[] }>(
          { queryKey: approvalListQueryKey() },
          (list) => list && { ...list, items: list.items.filter((one) => one.id !== approval.id) },
        );
        latestReadAgain.current();
      },
      decide: (approvals, verdict, undoMs = UNDO_MS) => {
        for (const approval of approvals) outbox.decide(approval, verdict, undoMs);
        const words = verdict.decision === 'approve' ? 'Approved' : 'Rejected';
        const undo = () => {
          for (const approval of approvals) outbox.undo(approval.id);
        };
        const text = approvals.length === 1 ? `${words}.` : `${words} ${approvals.length}.`;
        if (undoMs === 0) show({ text });
        else show({ text, action: { verb: 'Undo', run: undo }, durationMs: undoMs, isCountedDown: true });
      },
    }),
    [outbox, show, queries],
  );
  return <DecisionsContext value={decisions}>{children}</DecisionsContext>;
}
