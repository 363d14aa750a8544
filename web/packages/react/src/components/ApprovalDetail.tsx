/** One approval: what is staged, what it changes, and the decision: approve, edit and approve, or reject with a reason. */
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import type { Approval } from '../api/types.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { useSederunt } from '../context.js';
import { type ApprovalVerdict, useApprovalDecision } from '../hooks/useApprovalDecision.js';
import { readableJson } from '../vocabulary/content.js';
import { agoText } from '../vocabulary/time.js';
import { classNames } from './classNames.js';
import { LongText } from './LongText.js';
import { refusalSentence } from './refusalSentence.js';
import {
  editedValues,
  editorKind,
  editorText,
  parseEdit,
  readStaged,
  type StagedValue,
  verdictEdits,
} from './stagedValue.js';

const REASON_CHARS_MAX = 2_000;

export interface ApprovalDetailProps {
  approval: Approval;
  /** The entity's fields as they are now, to show what an output would change. */
  entityFields?: Record<string, unknown> | undefined;
  /** False shows the approval without its buttons. */
  canDecide?: boolean | undefined;
  /** How long a decision can be taken back before it is sent. */
  undoMs?: number | undefined;
  /** Sentences that are offered as the reason of a rejection. */
  reasonTemplates?: readonly string[] | undefined;
  onDecided?: ((approval: Approval) => void) | undefined;
  className?: string | undefined;
}

interface FieldEditorProps {
  id: string;
  name: string;
  value: unknown;
  text: string;
  complaint: string | undefined;
  onChange: (text: string) => void;
}

function FieldEditor({ id, name, value, text, complaint, onChange }: FieldEditorProps) {
  const shared = {
    id,
    'aria-label': name,
    'aria-invalid': complaint !== undefined,
    'aria-describedby': complaint === undefined ? undefined : `${id}-complaint`,
    className: 'sdr-field',
    value: text,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (editorKind(value)) {
    case 'boolean':
      return (
        <select {...shared}>
          <option>true</option>
          <option>false</option>
        </select>
      );
    case 'number':
      return <input {...shared} inputMode="decimal" />;
    case 'text':
      return text.length > 80 || text.includes('\n') ? <textarea {...shared} rows={4} /> : <input {...shared} />;
    default:
      return <textarea {...shared} className="sdr-field sdr-code" rows={4} spellCheck={false} />;
  }
}

interface StagedTableProps {
  staged: Extract<StagedValue, { values: Record<string, unknown> }>;
  isEditing: boolean;
  edits: Record<string, string>;
  complaints: Record<string, string>;
  onEdit: (field: string, text: string) => void;
}

function Change({ sign, label, value }: { sign: string; label: string; value: unknown }) {
  return (
    <div className={sign === '+' ? 'sdr-added' : 'sdr-removed'}>
      <span aria-hidden="true">{sign}</span>
      <span className="sdr-hidden">{label}</span> <LongText text={readableJson(value)} />
    </div>
  );
}

function StagedTable({ staged, isEditing, edits, complaints, onEdit }: StagedTableProps) {
  const id = useId();
  const before = staged.kind === 'fields' ? staged.before : undefined;
  const { values, changed } = editedValues(staged.values, edits);
  return (
    <table className="sdr-table">
      <thead>
        <tr>
          <th scope="col">{staged.kind === 'tool' ? 'argument' : 'field'}</th>
          {before !== undefined && <th scope="col">now</th>}
          <th scope="col">proposed</th>
        </tr>
      </thead>
      <tbody>
        {Object.keys(staged.values).map((field) => {
          const complaint = complaints[field];
          return (
            <tr key={field} data-edited={changed.includes(field)}>
              <th scope="row">
                {field}
                {changed.includes(field) && <span className="sdr-soft"> (edited)</span>}
              </th>
              {before !== undefined && (
                <td>
                  <LongText text={before[field] === undefined ? '–' : readableJson(before[field])} />
                </td>
              )}
              <td>
                {isEditing ? (
                  <FieldEditor
                    id={`${id}-${field}`}
                    name={field}
                    value={staged.values[field]}
                    text={edits[field] ?? editorText(staged.values[field])}
                    complaint={complaint}
                    onChange={(text) => onEdit(field, text)}
                  />
                ) : (
                  !changed.includes(field) && <LongText text={readableJson(staged.values[field])} />
                )}
                {changed.includes(field) && (
                  <>
                    <Change sign="−" label="staged" value={staged.values[field]} />
                    <Change sign="+" label="edited" value={values[field]} />
                  </>
                )}
                {complaint !== undefined && (
                  <p id={`${id}-${field}-complaint`} className="sdr-error" role="alert">
                    {complaint}
                  </p>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

interface RejectFormProps {
  templates: readonly string[];
  onReject: (reason: string) => void;
  onCancel: () => void;
}

function RejectForm({ templates, onReject, onCancel }: RejectFormProps) {
  const [reason, setReason] = useState('');
  const id = useId();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onReject(reason.trim());
      }}
    >
      <label htmlFor={id}>Reason (the agent is told)</label>
      <textarea
        id={id}
        className="sdr-field"
        rows={3}
        maxLength={REASON_CHARS_MAX}
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      {templates.map((template) => (
        <button key={template} type="button" className="sdr-link" onClick={() => setReason(template)}>
          {template}
        </button>
      ))}
      <div className="sdr-actions">
        <button type="submit" className="sdr-button">
          Reject
        </button>
        <button type="button" className="sdr-button sdr-ghost" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function QuestionForm({ approval, question, onDecided }: QuestionFormProps) {
  const { text, wantsObject, isStep } = question;
  const { client } = useSederunt();
  const [reply, setReply] = useState('');
  const [complaint, setComplaint] = useState<string | null>(null);
  const id = useId();
  const send = useMutation<unknown, Error, unknown>({
    mutationFn: (value) => {
      const call = { path: { id: approval.session_id }, idempotencyKey: newIdempotencyKey() };
      if (!isStep)
        return client.post('/api/sessions/{id}/elicitation-reply', { ...call, body: { reply: value as Reply } });
      const body = wantsObject ? { result: value as Reply } : { text: value as string };
      return client.post('/api/sessions/{id}/human-complete', { ...call, body });
    },
    onSuccess: () => onDecided?.(approval),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const parsed = parseEdit(wantsObject ? 'json' : 'text', reply);
        setComplaint('complaint' in parsed ? parsed.complaint : null);
        if ('value' in parsed && reply.trim() !== '') send.mutate(parsed.value);
      }}
    >
      <label htmlFor={id} dir="auto">
        {text}
      </label>
      <textarea
        id={id}
        className="sdr-field"
        rows={4}
        value={reply}
        aria-invalid={complaint !== null}
        onChange={(event) => setReply(event.target.value)}
      />
      {(complaint ?? send.error?.message) !== undefined && (
        <p className="sdr-error" role="alert">
          {complaint ?? send.error?.message}
        </p>
      )}
      <button type="submit" className="sdr-button" disabled={send.isPending || send.isSuccess}>
        {questionButton(isStep, send.isSuccess)}
      </button>
    </form>
  );
}

function questionButton(isStep: boolean, isDone: boolean): string {
  if (isDone) return isStep ? 'Done' : 'Answered';
  return isStep ? 'Mark as done' : 'Answer';
}

type Reply = Record<string, unknown>;

interface QuestionFormProps {
  approval: Approval;
  question: Extract<StagedValue, { kind: 'question' }>;
  onDecided: ((approval: Approval) => void) | undefined;
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

/** The table and the buttons of everything that is approved or rejected. */
function DecisionForm(props: ApprovalDetailProps & { staged: StagedTableProps['staged'] }) {
  const { approval, staged, canDecide = true, undoMs, onDecided, reasonTemplates = [] } = props;
  const decision = useApprovalDecision(approval, { undoMs, onDecided });
  const [edits, setEdits] = useState<Record<string, string>>({});
  const [mode, setMode] = useState<'look' | 'edit' | 'reject'>('look');
  const edited = editedValues(staged.values, edits);
  const refusal = decision.error === null ? null : refusalSentence(decision.error);
  const fieldComplaint =
    refusal?.field !== undefined && Object.hasOwn(staged.values, refusal.field)
      ? { [refusal.field]: refusal.text }
      : {};
  const isBusy = decision.phase === 'waiting' || decision.phase === 'sending';
  const isOver = decision.phase === 'decided' || refusal?.isOpen === false;

  const approve = () => {
    if (Object.keys(edited.complaints).length > 0) return;
    const changes = edited.changed.length === 0 ? {} : verdictEdits(staged, edited.values);
    setMode('look');
    decision.decide({ decision: 'approve', ...changes } as ApprovalVerdict);
  };
  const reject = (reason: string) => {
    setMode('look');
    decision.decide({ decision: 'deny', ...(reason === '' ? {} : { reason }) });
  };

  return (
    <>
      <StagedTable
        staged={staged}
        isEditing={mode === 'edit' && !isBusy}
        edits={edits}
        complaints={{ ...fieldComplaint, ...edited.complaints }}
        onEdit={(field, text) => setEdits({ ...edits, [field]: text })}
      />
      {refusal !== null && Object.keys(fieldComplaint).length === 0 && (
        <p className="sdr-error" role="alert">
          {refusal.text}
        </p>
      )}
      <div role="status" aria-live="polite">
        {isBusy && (decision.verdict?.decision === 'approve' ? 'Approved.' : 'Rejected.')}
        {decision.phase === 'decided' && 'Decided.'}
      </div>
      {decision.phase === 'waiting' && (
        <button type="button" className="sdr-button" onClick={decision.undo}>
          Undo ({decision.secondsLeft})
        </button>
      )}
      {mode === 'reject' && !isBusy && (
        <RejectForm templates={reasonTemplates} onReject={reject} onCancel={() => setMode('look')} />
      )}
      {canDecide && mode !== 'reject' && !isBusy && !isOver && (
        <div className="sdr-actions">
          <button type="button" className="sdr-button sdr-primary" onClick={approve}>
            {edited.changed.length > 0 ? 'Approve with edits' : 'Approve'}
          </button>
          <button type="button" className="sdr-button" onClick={() => setMode(mode === 'edit' ? 'look' : 'edit')}>
            {mode === 'edit' ? 'Done editing' : 'Edit'}
          </button>
          <button type="button" className="sdr-button" onClick={() => setMode('reject')}>
            Reject…
          </button>
        </div>
      )}
    </>
  );
}

const KIND_WORDS: Record<string, string> = {
  tool: 'tool call',
  output: 'output',
  promotion: 'promotion',
  question: 'question',
};

function detailBody(props: ApprovalDetailProps, staged: StagedValue): ReactNode {
  const { approval, canDecide = true, onDecided } = props;
  if (staged.kind === 'broken') {
    return (
      <>
        <p className="sdr-error">This approval cannot be read, and nothing of it is carried out.</p>
        <LongText text={readableJson(approval.staged ?? null)} isCode />
      </>
    );
  }
  if (staged.kind === 'question') {
    return approval.state === 'pending' && canDecide ? (
      <QuestionForm key={approval.id} approval={approval} question={staged} onDecided={onDecided} />
    ) : (
      <LongText text={staged.text} />
    );
  }
  return (
    <DecisionForm key={approval.id} {...props} canDecide={canDecide && approval.state === 'pending'} staged={staged} />
  );
}

export function ApprovalDetail(props: ApprovalDetailProps) {
  const { approval, entityFields, className } = props;
  const staged = readStaged(approval, entityFields);
  const flags: unknown = approval.flags;
  return (
    <section data-sdr="" className={classNames('sdr-approval', className)} aria-label="Approval">
      <p className="sdr-approval-head">
        <b dir="auto">{staged.kind === 'tool' ? staged.name : (KIND_WORDS[approval.kind] ?? approval.kind)}</b>{' '}
        {staged.kind === 'tool' && <span className="sdr-soft">{KIND_WORDS['tool']}</span>}{' '}
        {typeof approval.score === 'number' && <span className="sdr-soft">score {approval.score.toFixed(1)}</span>}{' '}
        {Array.isArray(flags) && flags.map((flag) => <span key={String(flag)}>⚑ {String(flag)} </span>)}
      </p>
      {approval.state !== 'pending' && <SettledLine approval={approval} />}
      {detailBody(props, staged)}
    </section>
  );
}
