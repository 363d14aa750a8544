/** One line in which a person notes what they did: Enter saves, Escape leaves. */
import { type SyntheticEvent, useEffect, useId, useRef, useState } from 'react';
import { classNames } from './classNames.js';
import { useDialog } from './useDialog.js';

/** What the server takes. */
const MARKER_CHARS_MAX = 2_000;
const SAID_MS = 2_000;

export interface QuickMarkerDialogProps {
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  /** Saves the marker, such as `recordMarkerAsync` of `useActiveHumanSession`. The text stays if this rejects. */
  onSubmit: (text: string) => Promise<void>;
  className?: string | undefined;
}

export function QuickMarkerDialog({ isOpen, onOpenChange, onSubmit, className }: QuickMarkerDialogProps) {
  const [text, setText] = useState('');
  const [isSaving, setSaving] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [said, setSaid] = useState('');
  const dialog = useDialog(isOpen, () => onOpenChange(false));
  const field = useRef<HTMLInputElement>(null);
  const id = useId();

  useEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);
  useEffect(() => {
    if (said === '') return undefined;
    const timer = setTimeout(() => setSaid(''), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);

  const save = async (event: SyntheticEvent) => {
    event.preventDefault();
    const marker = text.trim();
    if (marker === '' || isSaving) return;
    setSaving(true);
    setError(null);
    try {
      await onSubmit(marker);
      setText('');
      setSaid('Marked');
      onOpenChange(false);
    } catch (refusal) {
      setError(refusal instanceof Error ? refusal.message : 'The marker was not saved. Try again.');
    } finally {
      setSaving(false);
    }
  };

  return (
    <>
      <dialog ref={dialog} data-sdr="" className={classNames('sdr-dialog', className)} aria-labelledby={`${id}-label`}>
        <form onSubmit={(event) => void save(event)}>
          <label id={`${id}-label`} htmlFor={`${id}-field`}>
            Marker
          </label>
          <input
            ref={field}
            id={`${id}-field`}
            className="sdr-field"
            value={text}
            maxLength={MARKER_CHARS_MAX}
            autoComplete="off"
            placeholder="What did you do?"
            aria-describedby={`${id}-help`}
            aria-invalid={error !== null}
            onChange={(event) => setText(event.target.value)}
          />
          <p
            id={`${id}-help`}
            className={error === null ? 'sdr-soft' : 'sdr-error'}
            role={error === null ? undefined : 'alert'}
          >
            {error ?? 'Enter saves, Esc leaves.'}
          </p>
        </form>
      </dialog>
      <div data-sdr="" className="sdr-hidden" role="status" aria-live="polite">
        {said}
      </div>
    </>
  );
}
