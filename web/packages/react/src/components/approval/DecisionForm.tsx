/** The values and the buttons of everything that is approved, edited and approved, or rejected. */
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useRef, useState } from 'react';
import type { Approval } from '../../api/types.js';
import { type ApprovalInContext, contextOf, schemaOf } from '../../approval/context.js';
import { beginDraft, changesOf, closeJson, type Draft, hasComplaints, openJson } from '../../approval/draft.js';
import type { ApprovalVerdict } from '../../approval/outbox.js';
import { type RefusalSentence, refusalSentence } from '../../approval/refusalSentence.js';
import { editsOf, type StagedChange, verdictEdits } from '../../approval/stagedValue.js';
import type { ApprovalDecision } from '../../hooks/useApprovalDecision.js';
import type { ApprovalDetailProps, ApprovalHandle } from '../ApprovalDetail.js';
import { RawArguments } from './RawArguments.js';
import { KeyHint, RejectForm } from './RejectForm.js';
import { StagedTable } from './StagedTable.js';

export interface DecisionFormProps extends Omit<ApprovalDetailProps, 'decision'> {
  staged: StagedChange;
  decision: ApprovalDecision;
  handle?: Ref<ApprovalHandle> | undefined;
}

type Mode = 'look' | 'edit' | 'reject';

function firstDraft(staged: StagedChange, decision: ApprovalDecision): Draft {
  const draft = beginDraft(staged.values);
  const values = decision.phase === 'refused' ? editsOf(staged, decision.verdict) : undefined;
  return values === undefined ? draft : { ...draft, values };
}

/** Of an approval that is decided: what was carried out. */
function decidedDraft(approval: Approval, staged: StagedChange): Draft {
  const edited: unknown = approval.edited ?? undefined;
  const key = staged.kind === 'tool' ? 'modified_args' : 'modified_output';
  return beginDraft(editsOf(staged, { [key]: edited }) ?? staged.values);
}

/** The fields that are staged otherwise than when the person decided. */
function restaged(approval: Approval, seen: Approval | undefined): readonly string[] {
  if (seen === undefined || seen.digest === approval.digest) return [];
  const [now, then] = [approval.staged, seen.staged].map((one) => (one ?? {}) as Record<string, unknown>);
  const fields = new Set([...Object.keys(now ?? {}), ...Object.keys(then ?? {})]);
  return [...fields].filter((field) => JSON.stringify(now?.[field]) !== JSON.stringify(then?.[field]));
}

function FieldsOrJson({ draft, onDraft }: { draft: Draft; onDraft: (draft: Draft) => void }) {
  const isJson = draft.json !== null;
  return (
    <div className="sdr-tabs">
      <button type="button" className="sdr-tab" aria-pressed={!isJson} onClick={() => onDraft(closeJson(draft))}>
        Fields
      </button>
      <button
        type="button"
        className="sdr-tab"
        aria-pressed={isJson}
        onClick={() => {
          if (!isJson) onDraft(openJson(draft));
        }}
      >
        JSON
      </button>
    </div>
  );
}

function Refused({ refusal, fields }: { refusal: RefusalSentence; fields: readonly string[] }) {
  return (
    <p className="sdr-error" role="alert">
      {refusal.text}
      {fields.length > 0 && ` Staged otherwise now: ${fields.join(', ')}.`}
    </p>
  );
}

/** Moves the focus into what a mode opens, and back to its button when the mode ends. */
function useModeFocus(mode: Mode) {
  const form = useRef<HTMLDivElement>(null);
  const reason = useRef<HTMLTextAreaElement>(null);
  const shown = useRef<Mode>('look');
  useEffect(() => {
    const before = shown.current;
    shown.current = mode;
    if (mode === before) return;
    if (mode === 'reject') reason.current?.focus();
    else if (mode === 'edit') form.current?.querySelector<HTMLElement>('.sdr-field')?.focus();
    else form.current?.querySelector<HTMLElement>(`[data-mode="${before}"]`)?.focus();
  }, [mode]);
  return { form, reason };
}

/** The edits, the reason, and what the buttons and keys do with them. */
function useReview({ approval, staged, decision, canDecide = true, handle }: DecisionFormProps) {
  const isRefused = decision.phase === 'refused';
  const [ownDraft, setDraft] = useState(() => firstDraft(staged, decision));
  const draft = approval.state === 'pending' ? ownDraft : decidedDraft(approval, staged);
  const [mode, setMode] = useState<Mode>('look');
  const [reason, setReason] = useState((isRefused ? decision.verdict?.reason : undefined) ?? '');
  const changes = changesOf(draft, staged.values);
  const refusal = decision.error === null ? null : refusalSentence(decision.error, decision.settled);
  const isBusy = decision.phase === 'waiting' || decision.phase === 'sending';
  const isOver = decision.phase === 'decided' || refusal?.isOpen === false;
  const isOpen = canDecide && !isBusy && !isOver;

  const approve = () => {
    if (!isOpen || hasComplaints(draft)) return;
    const edits = changes.size === 0 ? {} : verdictEdits(staged, draft.values);
    setMode('look');
    decision.decide({ decision: 'approve', ...edits } as ApprovalVerdict);
  };
  const reject = () => {
    if (!isOpen) return;
    setMode('look');
    decision.decide({ decision: 'deny', ...(reason.trim() === '' ? {} : { reason: reason.trim() }) });
  };
  useImperativeHandle(handle, () => ({
    approve,
    edit: () => isOpen && setMode('edit'),
    reject: () => isOpen && setMode('reject'),
    send: () => (mode === 'reject' ? reject() : approve()),
    leave: () => {
      if (mode === 'look') return false;
      setMode('look');
      return true;
    },
  }));
  const shownMode = isBusy ? 'look' : mode;
  return { draft, setDraft, mode: shownMode, setMode, reason, setReason, changes, refusal, isOpen, approve, reject };
}

type Review = ReturnType<typeof useReview>;

function Values({ approval, staged, review }: { approval: ApprovalInContext; staged: StagedChange; review: Review }) {
  const { draft, setDraft, mode, refusal } = review;
  const judges = { schema: schemaOf(approval), criteria: contextOf(approval).criteria };
  const isEditing = mode === 'edit';
  return (
    <>
      {isEditing && staged.kind === 'tool' && <FieldsOrJson draft={draft} onDraft={setDraft} />}
      {isEditing && draft.json !== null ? (
        <RawArguments draft={draft} onDraft={setDraft} />
      ) : (
        <StagedTable
          staged={staged}
          judges={judges}
          context={contextOf(approval)}
          draft={draft}
          isEditing={isEditing}
          refused={refusal?.field === undefined ? {} : { [refusal.field]: refusal.text }}
          onDraft={setDraft}
        />
      )}
    </>
  );
}

function Outcome({ decision }: { decision: ApprovalDecision }) {
  const { phase, verdict, secondsLeft, undo } = decision;
  const isBusy = phase === 'waiting' || phase === 'sending';
  return (
    <>
      <div role="status" aria-live="polite">
        {isBusy && (verdict?.decision === 'approve' ? 'Approved.' : 'Rejected.')}
        {phase === 'decided' && 'Decided.'}
      </div>
      {phase === 'waiting' && (
        <button type="button" className="sdr-button" onClick={undo}>
          Undo ({secondsLeft})
        </button>
      )}
    </>
  );
}

function Buttons({ review, keyHints = {} }: { review: Review; keyHints: ApprovalDetailProps['keyHints'] }) {
  const { mode, setMode, changes, approve } = review;
  const isEditing = mode === 'edit';
  return (
    <div className="sdr-actions">
      <button type="button" className="sdr-button sdr-primary" onClick={approve}>
        {changes.size > 0 ? 'Approve with edits' : 'Approve'}
        <KeyHint keys={isEditing ? keyHints.send : keyHints.approve} />
      </button>
      <button
        type="button"
        className="sdr-button"
        data-mode="edit"
        onClick={() => setMode(isEditing ? 'look' : 'edit')}
      >
        {isEditing ? 'Done editing' : 'Edit'}
        <KeyHint keys={isEditing ? undefined : keyHints.edit} />
      </button>
      <button type="button" className="sdr-button" data-mode="reject" onClick={() => setMode('reject')}>
        Reject…
        <KeyHint keys={isEditing ? undefined : keyHints.reject} />
      </button>
    </div>
  );
}

export function DecisionForm(props: DecisionFormProps): ReactNode {
  const { approval, staged, decision, reasonTemplates = [], keyHints } = props;
  const review = useReview(props);
  const { mode, setMode, refusal, isOpen } = review;
  const { form, reason: reasonField } = useModeFocus(mode);
  const isAtField = refusal?.field !== undefined && Object.hasOwn(staged.values, refusal.field);
  return (
    <div ref={form}>
      <Values approval={approval} staged={staged} review={review} />
      {refusal !== null && !isAtField && <Refused refusal={refusal} fields={restaged(approval, decision.seen)} />}
      <Outcome decision={decision} />
      {mode === 'reject' && (
        <RejectForm
          reason={review.reason}
          templates={reasonTemplates}
          fieldRef={reasonField}
          keyHint={keyHints?.send}
          onReason={review.setReason}
          onReject={review.reject}
          onCancel={() => setMode('look')}
        />
      )}
      {isOpen && mode !== 'reject' && <Buttons review={review} keyHints={keyHints} />}
    </div>
  );
}
