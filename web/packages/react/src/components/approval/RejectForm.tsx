/** The reason of a rejection, in words of one's own or from a template. */
import { type Ref, useId } from 'react';

const REASON_CHARS_MAX = 2_000;

export interface RejectFormProps {
  reason: string;
  templates: readonly string[];
  fieldRef?: Ref<HTMLTextAreaElement> | undefined;
  /** The key that sends it. */
  keyHint?: string | undefined;
  onReason: (reason: string) => void;
  onReject: () => void;
  onCancel: () => void;
}

export function RejectForm(props: RejectFormProps) {
  const { reason, templates, fieldRef, keyHint, onReason, onReject, onCancel } = props;
  const id = useId();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onReject();
      }}
    >
      <label htmlFor={id}>Reason (the agent is told)</label>
      <textarea
        ref={fieldRef ?? null}
        id={id}
        className="sdr-field"
        dir="auto"
        rows={3}
        maxLength={REASON_CHARS_MAX}
        value={reason}
        onChange={(event) => onReason(event.target.value)}
      />
      {templates.length > 0 && (
        <div className="sdr-templates">
          {templates.map((template) => (
            <button key={template} type="button" className="sdr-link" onClick={() => onReason(template)}>
              {template}
            </button>
          ))}
        </div>
      )}
      <div className="sdr-actions">
        <button type="submit" className="sdr-button">
          Reject
          <KeyHint keys={keyHint} />
        </button>
        <button type="button" className="sdr-button sdr-ghost" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}

export function KeyHint({ keys }: { keys: string | undefined }) {
  if (keys === undefined) return null;
  return (
    <span aria-hidden="true">
      <kbd className="sdr-kbd">{keys}</kbd>
    </span>
  );
}
