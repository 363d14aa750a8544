/** Asks for the reason before one or several approvals are rejected. */
import { useState } from 'react';
import { Button } from '../components/Button.js';
import { Dialog } from '../components/Dialog.js';
import { Field } from '../components/Field.js';
import { useKey } from '../keyboard/KeyboardProvider.js';
import { REASON_TEMPLATES } from './approvalWords.js';

const REASON_CHARS_MAX = 2_000;

export interface RejectDialogProps {
  title: string;
  onReject: (reason: string) => void;
  onClose: () => void;
}

export function RejectDialog({ title, onReject, onClose }: RejectDialogProps) {
  const [reason, setReason] = useState('');
  const reject = () => onReject(reason.trim());
  useKey('send', reject);
  return (
    <Dialog isOpen onOpenChange={onClose} title={title} description="The agent is told the reason.">
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          reject();
        }}
      >
        <Field label="Reason">
          {(props) => (
            <textarea
              {...props}
              dir="auto"
              rows={3}
              maxLength={REASON_CHARS_MAX}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
          )}
        </Field>
        <div className="flex flex-wrap gap-x-3">
          {REASON_TEMPLATES.map((template) => (
            <button
              key={template}
              type="button"
              className="min-h-7 text-row text-accent underline"
              onClick={() => setReason(template)}
            >
              {template}
            </button>
          ))}
        </div>
        <div className="flex gap-2">
          <Button type="submit" kind="primary" shortcut="send">
            Reject
          </Button>
          <Button kind="ghost" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
