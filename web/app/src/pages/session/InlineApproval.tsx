/** A decision that the run waits for, in its place in the transcript. */
import { ApprovalDetail, agoText, metadataText, type SessionEvent, useApproval } from '@sederunt/react';
import { useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { Link } from 'wouter';
import { useMe } from '../../auth/SignInProvider.js';
import { useNow } from '../../components/clock.js';
import { Kbd } from '../../components/Kbd.js';
import { approvalListQueryKey, sessionQueryKey } from '../../data/queryKeys.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';

const STATE_WORDS: Record<string, string> = {
  approved: 'Approved',
  denied: 'Rejected',
  expired: 'Expired without a decision',
  cancelled: 'No longer needed',
};

const KIND_WORDS: Record<string, string> = {
  tool: 'a tool call',
  output: 'a result',
  promotion: 'answers for an entity',
  question: 'a question',
};

/** The buttons of the approval stand in this order; a key presses the one that its letter names. */
const BUTTONS = { approve: 0, edit: 1, reject: 2 } as const;

function useDecisionKeys(isPending: boolean) {
  const place = useRef<HTMLDivElement>(null);
  const press = (at: number) => () => {
    const button = place.current?.querySelectorAll<HTMLButtonElement>('.sdr-actions button')[at];
    if (!isPending || button === undefined) return false;
    button.click();
    return true;
  };
  useKeys({ approve: press(BUTTONS.approve), edit: press(BUTTONS.edit), reject: press(BUTTONS.reject) });
  return place;
}

function LoadedApproval({ id, kind }: { id: string; kind: string }) {
  const { can } = useMe();
  const { data, error } = useApproval(id);
  const queries = useQueryClient();
  const now = useNow();
  const isPending = data?.state === 'pending';
  const place = useDecisionKeys(isPending);
  const what = KIND_WORDS[kind] ?? kind;
  if (data === undefined) {
    return (
      <p className="text-soft">
        {error === null ? `Waits for a decision on ${what}.` : `Waited for a decision on ${what} that you may not see.`}
      </p>
    );
  }
  if (!isPending) {
    const who = data.decided_by === null || data.decided_by === undefined ? '' : ` by ${data.decided_by}`;
    const when = data.decided_at === null || data.decided_at === undefined ? '' : `, ${agoText(data.decided_at, now)}`;
    return (
      <p>
        Waited for a decision on {what}. {STATE_WORDS[data.state] ?? data.state}
        {who}
        {when}.{data.reason !== null && data.reason !== undefined && <span dir="auto"> “{data.reason}”</span>}
      </p>
    );
  }
  return (
    <div ref={place} className="my-1 rounded-card border border-waiting-human bg-raised p-3 text-row">
      <p className="mb-2 flex flex-wrap items-center gap-3 text-soft">
        <span className="font-semibold text-waiting-human">Needs a decision</span>
        <span className="flex items-center gap-1">
          <Kbd keys="a" /> approve <Kbd keys="e" /> edit <Kbd keys="r" /> reject
        </span>
        <Link href={`/inbox/${encodeURIComponent(id)}`} className="ml-auto text-accent underline">
          Open in the inbox
        </Link>
      </p>
      <ApprovalDetail
        approval={data}
        canDecide={can.includes('decide')}
        onDecided={() => {
          void queries.invalidateQueries({ queryKey: approvalListQueryKey() });
          void queries.invalidateQueries({ queryKey: sessionQueryKey(data.session_id), exact: true });
        }}
      />
    </div>
  );
}

/** Draws what waits for a decision; null leaves an event to the transcript. */
export function renderApproval(event: SessionEvent) {
  if (event.type !== 'session.waiting_approval') return null;
  const id = metadataText(event, 'approval_id');
  return id === undefined ? null : <LoadedApproval id={id} kind={metadataText(event, 'kind') ?? 'something'} />;
}
