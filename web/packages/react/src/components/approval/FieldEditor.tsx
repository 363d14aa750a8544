/** The control in which one value is edited: by its options, its type in the schema, or its type as it is. */
import { editorText, type FieldOption, type FieldShape } from '../../approval/fieldShape.js';

export interface FieldEditorProps {
  id: string;
  name: string;
  shape: FieldShape;
  text: string;
  complaint: string | undefined;
  onChange: (text: string) => void;
}

function optionWords({ label, isBlocked, isFlagged }: FieldOption): string {
  if (isBlocked) return `${label} ⛔ blocked`;
  return isFlagged ? `${label} ⚑ flagged` : label;
}

const LINE_CHARS_MAX = 80;

export function FieldEditor({ id, name, shape, text, complaint, onChange }: FieldEditorProps) {
  const shared = {
    id,
    'aria-label': name,
    'aria-invalid': complaint !== undefined,
    'aria-describedby': complaint === undefined ? undefined : `${id}-complaint`,
    className: 'sdr-field',
    value: text,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (shape.kind) {
    case 'choice':
    case 'boolean': {
      const options =
        shape.kind === 'choice'
          ? shape.options.map((option) => ({ text: editorText(option.value), words: optionWords(option) }))
          : ['true', 'false'].map((one) => ({ text: one, words: one }));
      return (
        <select {...shared}>
          {!options.some((option) => option.text === text) && <option value={text}>{text || '–'}</option>}
          {options.map((option) => (
            <option key={option.text} value={option.text}>
              {option.words}
            </option>
          ))}
        </select>
      );
    }
    case 'number':
      return <input {...shared} inputMode="decimal" />;
    case 'text':
      return text.length > LINE_CHARS_MAX || text.includes('\n') ? (
        <textarea {...shared} dir="auto" rows={4} />
      ) : (
        <input {...shared} dir="auto" />
      );
    default:
      return <textarea {...shared} className="sdr-field sdr-code" rows={4} spellCheck={false} />;
  }
}
