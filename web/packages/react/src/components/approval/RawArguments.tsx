/** The arguments of a call as raw JSON, in which keys can be added and left out. */
import { useId } from 'react';
import { type Draft, editJson } from '../../approval/draft.js';

export function RawArguments({ draft, onDraft }: { draft: Draft; onDraft: (draft: Draft) => void }) {
  const id = useId();
  const complaint = draft.json?.complaint;
  const text = draft.json?.text ?? '';
  return (
    <>
      <textarea
        aria-label="Arguments as JSON"
        aria-invalid={complaint !== undefined}
        aria-describedby={complaint === undefined ? undefined : `${id}-complaint`}
        className="sdr-field sdr-code"
        rows={Math.min(20, Math.max(6, text.split('\n').length + 1))}
        spellCheck={false}
        value={text}
        onChange={(event) => onDraft(editJson(draft, event.target.value))}
      />
      {complaint !== undefined && (
        <p id={`${id}-complaint`} className="sdr-error" role="alert">
          {complaint}
        </p>
      )}
    </>
  );
}
