/** A decision that the run waits for, in its place in the transcript. */
import { type ApprovalInContext, agoText, metadataText, type SessionEvent, useApproval } from '@sederunt/react';
import { Link } from 'wouter';
import { useNow } from '../../components/clock.js';
import { InlineDecision } from '../../decisions/InlineDecision.js';
import { inboxPath } from '../../decisions/inboxPath.js';

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

function PendingApproval({ approval }: { approval: ApprovalInContext }) {
  return (
    <div className="my-1 rounded-card border border-waiting-human bg-raised p-3 text-row">
      <p className="mb-2 flex flex-wrap items-center gap-3">
        <span className="font-semibold text-waiting-human">Needs a decision</span>
        <Link href={inboxPath(approval.id)} className="ml-auto text-accent underline">
          Open in the inbox
        </Link>
      </p>
      <InlineDecision approval={approval} />
    </div>
  );
}

function InlineApproval({ id, kind }: { id: string; kind: string }) {
  const { data, error } = useApproval(id);
  const now = useNow();
  const what = KIND_WORDS[kind] ?? kind;
  if (data === undefined) {
    return (
      <p className="text-soft">
        {error === null ? `Waits for a decision on ${what}.` : `Waited for a decision on ${what} that you may not see.`}
      </p>
    );
  }
  if (data.state === 'pending') return <PendingApproval approval={data} />;
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

/** Draws what waits for a decision; null leaves an event to the transcript. */
export function renderApproval(event: SessionEvent) {
  if (event.type !== 'session.waiting_approval') return null;
  const id = metadataText(event, 'approval_id');
  return id === undefined ? null : <InlineApproval id={id} kind={metadataText(event, 'kind') ?? 'something'} />;
}
