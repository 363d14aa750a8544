/** One approval with what a person needs to decide on it. */
import {
  type Approval,
  ApprovalDetail,
  type ApprovalHandle,
  type ApprovalInContext,
  isRefusal,
  useApproval,
  useOutboxDecision,
} from '@sederunt/react';
import { type ReactNode, type Ref, useEffect, useRef } from 'react';
import { Link } from 'wouter';
import { useMe } from '../../auth/SignInProvider.js';
import { useNow } from '../../components/clock.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { ApprovalSign } from '../../decisions/ApprovalSign.js';
import { isExpiringSoon, KIND_WORDS, REASON_TEMPLATES, waitWords } from '../../decisions/approvalWords.js';
import { useDecisions } from '../../decisions/DecisionsProvider.js';
import { APPROVAL_KEY_HINTS } from '../../decisions/InlineDecision.js';
import { LastWords } from './LastWords.js';

const NO_HINTS = {};

function Facts({ approval }: { approval: ApprovalInContext }) {
  const now = useNow();
  const { task, session, entity, attempt } = approval.context ?? {};
  const day = { weekday: 'short', day: 'numeric', month: 'short' } as const;
  const facts: [string, ReactNode][] = [
    ['kind', KIND_WORDS[approval.kind] ?? approval.kind],
    ['attempt', attempt && `attempt ${attempt.number} of ${attempt.limit}`],
    ['waits', approval.state === 'pending' && waitWords(approval, now)],
    [
      'expires',
      approval.state === 'pending' &&
        approval.expires_at !== null &&
        !isExpiringSoon(approval, now) &&
        `expires ${new Date(approval.expires_at).toLocaleDateString(undefined, day)}`,
    ],
    ['task', task && session?.title !== task.name && `task ${task.name}`],
    ['entity', entity && `${entity.type_slug} ${entity.title ?? entity.id}`],
    ['assigned', approval.assigned_to !== null && `assigned to ${approval.assigned_to}`],
    ['agent', session?.agent_slug && `agent ${session.agent_slug}`],
  ];
  return (
    <p className="flex flex-wrap gap-x-2 text-meta text-soft">
      {facts
        .filter(([, words]) => Boolean(words))
        .map(([name, words], at) => (
          <span key={name} dir="auto">
            {at > 0 && <span aria-hidden="true">· </span>}
            {words}
          </span>
        ))}
    </p>
  );
}

/** Begins what the address asks for, once the approval is there. */
function useBegun(
  begin: 'edit' | 'reject' | null,
  handle: { current: ApprovalHandle | null },
  onBegun: () => void,
): void {
  const latest = useRef(onBegun);
  latest.current = onBegun;
  useEffect(() => {
    if (begin === null) return;
    handle.current?.[begin]();
    latest.current();
  }, [begin, handle]);
}

interface ReadyPaneProps extends Omit<ApprovalPaneProps, 'id' | 'handle'> {
  approval: ApprovalInContext;
  handle: { current: ApprovalHandle | null };
}

function ReadyPane({ approval, title, handle, begin, hasKeys, onBegun, onMoveOn }: ReadyPaneProps) {
  const { outbox, decide, answered } = useDecisions();
  const { can } = useMe();
  const kept = useOutboxDecision(outbox, approval);
  useBegun(begin, handle, onBegun);
  const { task, session } = approval.context ?? {};
  const decision = {
    ...kept,
    decide: (verdict: Parameters<typeof kept.decide>[0]) => {
      onMoveOn(approval);
      decide([approval], verdict);
    },
  };
  const name = task?.name || session?.title || title || `A ${KIND_WORDS[approval.kind] ?? 'broken approval'}`;
  return (
    <article aria-label={name} className="grid gap-3">
      <header>
        <h2 className="flex items-center gap-2 text-lead font-semibold">
          <ApprovalSign kind={approval.kind} />
          <Link
            href={`/sessions/${encodeURIComponent(approval.session_id)}`}
            dir="auto"
            className="min-w-0 wrap-anywhere hover:underline"
          >
            {name}
          </Link>
        </h2>
        <Facts approval={approval} />
      </header>
      <ApprovalDetail
        approval={approval}
        decision={decision}
        canDecide={can.includes('decide')}
        reasonTemplates={REASON_TEMPLATES}
        keyHints={hasKeys ? APPROVAL_KEY_HINTS : NO_HINTS}
        handle={handle as Ref<ApprovalHandle>}
        onDecided={(done) => {
          onMoveOn(done);
          answered(done);
        }}
      />
      <LastWords sessionId={approval.session_id} staged={approval.staged} />
    </article>
  );
}

export interface ApprovalPaneProps {
  id: string;
  /** The name of the session that asks, as far as the list knows it. */
  title: string | undefined;
  handle: { current: ApprovalHandle | null };
  begin: 'edit' | 'reject' | null;
  /** False while the keys decide on what is selected in the list. */
  hasKeys: boolean;
  onBegun: () => void;
  onMoveOn: (approval: Approval) => void;
}

const GONE = new Error('There is no such approval, or it is not yours to decide. Choose another in the list.');

export function ApprovalPane({ id, ...rest }: ApprovalPaneProps) {
  const { data, error, refetch } = useApproval(id);
  if (data !== undefined) return <ReadyPane key={id} approval={data} {...rest} />;
  if (error === null) return <Skeleton />;
  const isGone = isRefusal(error) && (error.status === 404 || error.status === 403 || error.status === 422);
  return <ErrorState error={isGone ? GONE : error} onRetry={isGone ? undefined : () => void refetch()} />;
}
