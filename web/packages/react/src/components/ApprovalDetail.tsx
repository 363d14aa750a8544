/** One approval: what is staged, what it changes, and the decision: approve, edit and approve, or reject with a reason. */
import type { ReactNode, Ref } from 'react';
import type { Approval } from '../api/types.js';
import type { ApprovalInContext } from '../approval/context.js';
import { readStaged, type StagedValue } from '../approval/stagedValue.js';
import { type ApprovalDecision, useApprovalDecision } from '../hooks/useApprovalDecision.js';
import { readableJson } from '../vocabulary/content.js';
import { agoText } from '../vocabulary/time.js';
import { DecisionForm } from './approval/DecisionForm.js';
import { QuestionForm, QuestionText } from './approval/QuestionForm.js';
import { classNames } from './classNames.js';
import { LongText } from './LongText.js';

/** What keys of the host do, where it has keys for them. */
export interface ApprovalHandle {
  /** Approves what is shown; of a question, goes to the answer. */
  approve: () => void;
  edit: () => void;
  /** Asks for the reason of a rejection. */
  reject: () => void;
  /** Sends what is being written: the edits, the reason or the answer. */
  send: () => void;
  /** Leaves the editor or the reason; false where neither is open. */
  leave: () => boolean;
}

export interface ApprovalDetailProps {
  approval: ApprovalInContext;
  /** The entity's fields as they are now, where the approval comes without its context. */
  entityFields?: Record<string, unknown> | undefined;
  /** False shows the approval without its buttons. */
  canDecide?: boolean | undefined;
  /** How long a decision can be taken back before it is sent. */
  undoMs?: number | undefined;
  /** The decision, where it is kept outside of this component, as by `useOutboxDecision`. */
  decision?: ApprovalDecision | undefined;
  /** Sentences that are offered as the reason of a rejection. */
  reasonTemplates?: readonly string[] | undefined;
  onDecided?: ((approval: Approval) => void) | undefined;
  /** The host's keys, shown on the buttons. */
  keyHints?: Partial<Record<'approve' | 'edit' | 'reject' | 'send', string>> | undefined;
  handle?: Ref<ApprovalHandle> | undefined;
  className?: string | undefined;
}

const STATE_WORDS: Record<string, string> = {
  approved: 'Approved',
  denied: 'Rejected',
  expired: 'Expired without a decision',
  cancelled: 'No longer needed: its session went on without a decision',
};

function SettledLine({ approval }: { approval: Approval }) {
  const by = approval.decided_by === null ? '' : ` by ${approval.decided_by}`;
  const when = approval.decided_at === null ? '' : `, ${agoText(approval.decided_at, Date.now())}`;
  return (
    <p>
      {STATE_WORDS[approval.state] ?? approval.state}
      {by}
      {when}. {approval.reason !== null && <span dir="auto">“{approval.reason}”</span>}
    </p>
  );
}

const KIND_WORDS: Record<string, string> = {
  tool: 'tool call',
  output: 'output',
  promotion: 'promotion',
  question: 'question',
};

type BodyProps = ApprovalDetailProps & { staged: StagedValue; decision: ApprovalDecision };

function Body({ staged, ...props }: BodyProps): ReactNode {
  const { approval, canDecide = true } = props;
  const isOpen = canDecide && approval.state === 'pending';
  switch (staged.kind) {
    case 'broken':
      return (
        <>
          <p className="sdr-error">This approval cannot be read, and nothing of it is carried out.</p>
          <LongText text={readableJson(approval.staged ?? null)} isCode />
        </>
      );
    case 'question':
      return isOpen ? <QuestionForm {...props} question={staged} /> : <QuestionText question={staged} />;
    default:
      return <DecisionForm {...props} staged={staged} canDecide={isOpen} />;
  }
}

/** Keeps the decision in itself. */
function SelfDeciding(props: Omit<BodyProps, 'decision'>) {
  const decision = useApprovalDecision(props.approval, { undoMs: props.undoMs, onDecided: props.onDecided });
  return <Body {...props} decision={decision} />;
}

export function ApprovalDetail(props: ApprovalDetailProps) {
  const { approval, entityFields, decision, className } = props;
  const staged = readStaged(approval, entityFields);
  const flags: unknown = approval.flags;
  return (
    <section data-sdr="" className={classNames('sdr-approval', className)} aria-label="Approval">
      <p className="sdr-approval-head">
        {staged.kind === 'question' ? (
          <span dir="auto">{staged.text}</span>
        ) : (
          <b dir="auto">{staged.kind === 'tool' ? staged.name : (KIND_WORDS[approval.kind] ?? approval.kind)}</b>
        )}{' '}
        {staged.kind === 'tool' && <span className="sdr-soft">{KIND_WORDS['tool']}</span>}{' '}
        {typeof approval.score === 'number' && <span className="sdr-soft">score {approval.score.toFixed(1)}</span>}{' '}
        {Array.isArray(flags) && flags.map((flag) => <span key={String(flag)}>⚑ {String(flag)} </span>)}
      </p>
      {approval.state !== 'pending' && <SettledLine approval={approval} />}
      {decision === undefined ? (
        <SelfDeciding key={approval.id} {...props} staged={staged} />
      ) : (
        <Body key={approval.id} {...props} staged={staged} decision={decision} />
      )}
    </section>
  );
}
