/** A run's question, or a step that a person does: answered in words, by the fields of its schema, or declined. */
import { useMutation } from '@tanstack/react-query';
import { type Ref, useId, useImperativeHandle, useRef, useState } from 'react';
import type { ApprovalInContext } from '../../approval/context.js';
import {
  type FieldShape,
  fieldShape,
  type ParsedEdit,
  parseEdit,
  propertyOf,
  requiredOf,
} from '../../approval/fieldShape.js';
import { refusalSentence } from '../../approval/refusalSentence.js';
import type { StagedQuestion } from '../../approval/stagedValue.js';
import { newIdempotencyKey } from '../../client/idempotency.js';
import { useSederunt } from '../../context.js';
import type { ApprovalDecision } from '../../hooks/useApprovalDecision.js';
import { isRecord, readableJson } from '../../vocabulary/content.js';
import type { ApprovalDetailProps, ApprovalHandle } from '../ApprovalDetail.js';
import { LongText } from '../LongText.js';
import { FieldEditor } from './FieldEditor.js';
import { KeyHint, RejectForm } from './RejectForm.js';

export interface QuestionFormProps extends Omit<ApprovalDetailProps, 'approval' | 'decision'> {
  approval: ApprovalInContext;
  question: StagedQuestion;
  decision: ApprovalDecision;
  handle?: Ref<ApprovalHandle> | undefined;
}

interface AnswerField {
  name: string;
  label: string;
  shape: FieldShape;
  isRequired: boolean;
}

/** The fields of an object's schema; null where the answer is one value. */
function answerFields(schema: unknown): readonly AnswerField[] | null {
  const properties = isRecord(schema) ? schema['properties'] : undefined;
  if (!isRecord(properties) || Object.keys(properties).length === 0) return null;
  const required = requiredOf(schema);
  return Object.keys(properties).map((name) => {
    const { title } = propertyOf(schema, name);
    return {
      name,
      label: typeof title === 'string' ? title : name,
      shape: fieldShape(name, undefined, { schema }),
      isRequired: required.includes(name),
    };
  });
}

/** The shape of an answer that is one value. */
function wholeShape(schema: unknown): FieldShape {
  const shape = fieldShape('answer', undefined, { schema: { properties: { answer: schema } } });
  return isRecord(schema) ? shape : { ...shape, kind: 'text' };
}

interface ReadAnswer {
  value: unknown;
  complaints: Record<string, string>;
}

function readFields(fields: readonly AnswerField[], texts: Record<string, string>): ReadAnswer {
  const value: Record<string, unknown> = {};
  const complaints: Record<string, string> = {};
  for (const { name, shape, isRequired } of fields) {
    const text = texts[name] ?? '';
    if (text.trim() === '') {
      if (isRequired) complaints[name] = 'This is asked for.';
      continue;
    }
    const parsed: ParsedEdit = parseEdit(shape, text);
    if ('complaint' in parsed) complaints[name] = parsed.complaint;
    else value[name] = parsed.value;
  }
  return { value, complaints };
}

const WHOLE = '';

function readWhole(shape: FieldShape, text: string): ReadAnswer {
  if (text.trim() === '') return { value: undefined, complaints: { [WHOLE]: 'Write an answer.' } };
  const parsed = parseEdit(shape, text);
  return 'complaint' in parsed
    ? { value: undefined, complaints: { [WHOLE]: parsed.complaint } }
    : { value: parsed.value, complaints: {} };
}

function useAnswer({ approval, question, onDecided }: QuestionFormProps) {
  const { client } = useSederunt();
  const isSent = useRef(false);
  const mutation = useMutation<unknown, Error, { value: unknown; key: string }>({
    mutationFn: ({ value, key }) => {
      const call = { path: { id: approval.session_id }, idempotencyKey: key };
      if (!question.isStep) {
        const body = { reply: value as Record<string, unknown> };
        return client.post('/api/sessions/{id}/elicitation-reply', { ...call, body });
      }
      const body = typeof value === 'string' ? { text: value } : { result: value as Record<string, unknown> };
      return client.post('/api/sessions/{id}/human-complete', { ...call, body });
    },
    onSuccess: () => onDecided?.(approval),
    onError: () => {
      isSent.current = false;
    },
  });
  return {
    ...mutation,
    /** Once: two presses can come before the first has been drawn. */
    sendOnce: (value: unknown) => {
      if (isSent.current) return;
      isSent.current = true;
      mutation.mutate({ value, key: newIdempotencyKey() });
    },
  };
}

function questionButton(isStep: boolean, isDone: boolean): string {
  if (isDone) return isStep ? 'Done' : 'Answered';
  return isStep ? 'Mark as done' : 'Answer';
}

export function QuestionText({ question }: { question: StagedQuestion }) {
  const { description, input, denied } = question;
  return (
    <>
      {denied !== undefined && (
        <p>
          It was sent back: <span dir="auto">“{denied}”</span>
        </p>
      )}
      {description !== undefined && <LongText text={description} />}
      {input !== undefined && input !== null && <LongText text={readableJson(input)} isCode />}
    </>
  );
}

function FormLink({ viewId }: { viewId: string }) {
  return (
    <p>
      This is answered by a form:{' '}
      <a className="sdr-link" href={`/views/${encodeURIComponent(viewId)}`} target="_blank" rel="noreferrer">
        open the form
      </a>
    </p>
  );
}

export function QuestionForm(props: QuestionFormProps) {
  const { question, decision, keyHints = {}, reasonTemplates = [], handle } = props;
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [complaints, setComplaints] = useState<Record<string, string>>({});
  const [reason, setReason] = useState<string | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const reasonField = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const send = useAnswer(props);
  const fields = answerFields(question.schema);
  const whole = wholeShape(question.schema);
  const isBusy = decision.phase === 'waiting' || decision.phase === 'sending' || decision.phase === 'decided';
  const refusal = send.error ?? decision.error;

  const answer = () => {
    const read = fields === null ? readWhole(whole, texts[WHOLE] ?? '') : readFields(fields, texts);
    setComplaints(read.complaints);
    if (Object.keys(read.complaints).length === 0) send.sendOnce(read.value);
  };
  const decline = () => {
    const given = reason?.trim() ?? '';
    setReason(null);
    decision.decide({ decision: 'deny', ...(given === '' ? {} : { reason: given }) });
  };
  const focusAnswer = () => form.current?.querySelector<HTMLElement>('.sdr-field')?.focus();
  const reject = () => {
    setReason(reason ?? '');
    requestAnimationFrame(() => reasonField.current?.focus());
  };
  useImperativeHandle(handle, () => ({
    approve: focusAnswer,
    edit: focusAnswer,
    reject,
    send: () => (reason === null ? answer() : decline()),
    leave: () => {
      if (reason === null) return false;
      setReason(null);
      return true;
    },
  }));

  const editor = (name: string, label: string, shape: FieldShape) => (
    <FieldEditor
      id={`${id}-${name}`}
      name={label}
      shape={shape}
      text={texts[name] ?? ''}
      complaint={complaints[name]}
      onChange={(text) => setTexts({ ...texts, [name]: text })}
    />
  );
  const complaint = (name: string) =>
    complaints[name] !== undefined && (
      <p id={`${id}-${name}-complaint`} className="sdr-error" role="alert">
        {complaints[name]}
      </p>
    );

  return (
    <>
      <QuestionText question={question} />
      {question.viewId !== undefined && <FormLink viewId={question.viewId} />}
      {question.viewId === undefined && reason === null && !isBusy && (
        <form
          ref={form}
          className="sdr-answer"
          onSubmit={(event) => {
            event.preventDefault();
            answer();
          }}
        >
          {fields === null && (
            <>
              {whole.kind === 'text' ? (
                <textarea
                  id={`${id}-${WHOLE}`}
                  aria-label={question.text}
                  aria-invalid={complaints[WHOLE] !== undefined}
                  aria-describedby={complaints[WHOLE] === undefined ? undefined : `${id}-${WHOLE}-complaint`}
                  className="sdr-field"
                  dir="auto"
                  rows={4}
                  value={texts[WHOLE] ?? ''}
                  onChange={(event) => setTexts({ [WHOLE]: event.target.value })}
                />
              ) : (
                editor(WHOLE, question.text, whole)
              )}
              {complaint(WHOLE)}
            </>
          )}
          {fields?.map(({ name, label, shape, isRequired }) => (
            <div key={name} className="sdr-answer-field">
              <label htmlFor={`${id}-${name}`} dir="auto">
                {label}
                {!isRequired && <span className="sdr-soft"> (optional)</span>}
              </label>
              {editor(name, label, shape)}
              {shape.help !== undefined && <p className="sdr-soft">{shape.help}</p>}
              {complaint(name)}
            </div>
          ))}
          {refusal !== null && (
            <p className="sdr-error" role="alert">
              {refusalSentence(refusal, decision.settled).text}
            </p>
          )}
          <div className="sdr-actions">
            <button type="submit" className="sdr-button sdr-primary" disabled={send.isPending || send.isSuccess}>
              {questionButton(question.isStep, send.isSuccess)}
              <KeyHint keys={keyHints.send} />
            </button>
            <button type="button" className="sdr-button" onClick={reject}>
              Decline…
              <KeyHint keys={keyHints.reject} />
            </button>
          </div>
        </form>
      )}
      {question.viewId !== undefined && reason === null && !isBusy && (
        <div className="sdr-actions">
          <button type="button" className="sdr-button" onClick={reject}>
            Decline…
            <KeyHint keys={keyHints.reject} />
          </button>
        </div>
      )}
      {reason !== null && (
        <RejectForm
          reason={reason}
          templates={reasonTemplates}
          fieldRef={reasonField}
          keyHint={keyHints.send}
          onReason={setReason}
          onReject={decline}
          onCancel={() => setReason(null)}
        />
      )}
      {decision.phase === 'waiting' && (
        <button type="button" className="sdr-button" onClick={decision.undo}>
          Undo ({decision.secondsLeft})
        </button>
      )}
    </>
  );
}
