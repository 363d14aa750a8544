/** What is staged, field by field: what it replaces, what is proposed, and what the reviewer makes of it. */
import { useId } from 'react';
import type { ApprovalContext } from '../../approval/context.js';
import { changesOf, type Draft, editField, type FieldChange, fieldText } from '../../approval/draft.js';
import { type FieldShape, fieldShape, isSame, type Judges, requiredOf } from '../../approval/fieldShape.js';
import type { StagedChange } from '../../approval/stagedValue.js';
import { readableJson } from '../../vocabulary/content.js';
import { LongText } from '../LongText.js';
import { FieldEditor } from './FieldEditor.js';

export interface StagedTableProps {
  staged: StagedChange;
  judges: Judges;
  context: ApprovalContext;
  draft: Draft;
  isEditing: boolean;
  /** What the server said about single fields. */
  refused: Readonly<Record<string, string>>;
  onDraft: (draft: Draft) => void;
}

function Change({ sign, label, value }: { sign: '+' | '−'; label: string; value: unknown }) {
  return (
    <div className={sign === '+' ? 'sdr-added' : 'sdr-removed'}>
      <span aria-hidden="true">{sign}</span>
      <span className="sdr-hidden">{label}</span> <LongText text={readableJson(value)} />
    </div>
  );
}

function ProposedValue({ value, shape, isNew }: { value: unknown; shape: FieldShape; isNew: boolean }) {
  const option = shape.options.find((one) => isSame(one.value, value));
  if (isNew) return <Change sign="+" label="proposed" value={value} />;
  return (
    <>
      <LongText text={readableJson(value)} />
      {option?.isBlocked === true && <span className="sdr-error">⛔ blocked</span>}
      {option?.isFlagged === true && option.isBlocked === false && <span className="sdr-soft">⚑ flagged</span>}
    </>
  );
}

interface RowProps extends Omit<StagedTableProps, 'refused' | 'context'> {
  id: string;
  field: string;
  change: FieldChange | undefined;
  complaint: string | undefined;
  hasNow: boolean;
}

const CHANGE_WORDS: Record<FieldChange, string> = { edited: 'edited', added: 'added', removed: 'left out' };

function NowCell({ staged, field }: { staged: StagedChange; field: string }) {
  const before = staged.kind === 'fields' ? (staged.before ?? {}) : {};
  const isStale = staged.kind === 'fields' && staged.stale.includes(field);
  return (
    <td>
      <LongText text={Object.hasOwn(before, field) ? readableJson(before[field]) : '–'} />
      {isStale && <p className="sdr-error">Changed since this was staged.</p>}
    </td>
  );
}

function StagedRow({ id, field, staged, judges, draft, isEditing, change, complaint, hasNow, onDraft }: RowProps) {
  const value = staged.values[field];
  const shape = fieldShape(field, value, judges);
  const before = staged.kind === 'fields' ? staged.before : undefined;
  const isSameAsNow = before !== undefined && isSame(before[field], value);
  return (
    <tr data-edited={change !== undefined}>
      <th scope="row">
        {field}
        {change !== undefined && <span className="sdr-soft"> ({CHANGE_WORDS[change]})</span>}
      </th>
      {hasNow && <NowCell staged={staged} field={field} />}
      <td>
        {isEditing && change !== 'removed' && (
          <FieldEditor
            id={id}
            name={field}
            shape={shape}
            text={fieldText(draft, field)}
            complaint={complaint}
            onChange={(text) => onDraft(editField(draft, staged.values, field, shape, text))}
          />
        )}
        {!isEditing && change === undefined && isSameAsNow && <span className="sdr-soft">(unchanged)</span>}
        {!isEditing && change === undefined && !isSameAsNow && (
          <ProposedValue value={value} shape={shape} isNew={before !== undefined} />
        )}
        {change !== undefined && (
          <>
            {change !== 'added' && <Change sign="−" label="staged" value={value} />}
            {change !== 'removed' && <Change sign="+" label="edited" value={draft.values[field]} />}
          </>
        )}
        {shape.misfit !== undefined && change === undefined && <p className="sdr-error">{shape.misfit}</p>}
        {isEditing && shape.help !== undefined && <p className="sdr-soft">{shape.help}</p>}
        {complaint !== undefined && (
          <p id={`${id}-complaint`} className="sdr-error" role="alert">
            {complaint}
          </p>
        )}
      </td>
    </tr>
  );
}

function KeptRow({ field, value }: { field: string; value: unknown }) {
  return (
    <tr>
      <th scope="row">{field}</th>
      <td>
        <LongText text={readableJson(value)} />
      </td>
      <td className="sdr-soft">(unchanged)</td>
    </tr>
  );
}

export function StagedTable({ refused, context, ...props }: StagedTableProps) {
  const { staged, draft, judges } = props;
  const id = useId();
  const changes = changesOf(draft, staged.values);
  const hasNow = staged.kind === 'fields' && staged.before !== undefined;
  const kept = staged.kind === 'fields' ? Object.entries(staged.kept) : [];
  const missing = staged.kind === 'whole' ? [] : requiredOf(judges.schema).filter((one) => !(one in draft.values));
  const fields = new Set([...Object.keys(staged.values), ...Object.keys(draft.values)]);
  return (
    <>
      {context.tool?.description != null && (
        <p className="sdr-soft" dir="auto">
          {context.tool.description}
        </p>
      )}
      {fields.size === 0 && <p className="sdr-soft">Without arguments.</p>}
      {fields.size > 0 && (
        <table className="sdr-table sdr-staged">
          <thead>
            <tr>
              <th scope="col">{staged.kind === 'tool' ? 'argument' : 'field'}</th>
              {hasNow && <th scope="col">now</th>}
              <th scope="col">proposed</th>
            </tr>
          </thead>
          <tbody>
            {[...fields].map((field) => (
              <StagedRow
                key={field}
                {...props}
                id={`${id}-${field}`}
                field={field}
                change={changes.get(field)}
                complaint={draft.unread[field]?.complaint ?? refused[field]}
                hasNow={hasNow}
              />
            ))}
            {hasNow && kept.map(([field, value]) => <KeptRow key={`kept ${field}`} field={field} value={value} />)}
          </tbody>
        </table>
      )}
      {missing.length > 0 && <p className="sdr-error">Its contract asks for {missing.join(', ')}, which is missing.</p>}
    </>
  );
}
