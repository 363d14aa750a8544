/** A reviewer's edits of what is staged, field by field or as raw JSON, before they are sent. */
import { isRecord } from '../vocabulary/content.js';
import { editorText, type FieldShape, isSame, parseEdit } from './fieldShape.js';

export type StagedValues = Readonly<Record<string, unknown>>;

export interface Draft {
  readonly values: StagedValues;
  /** Texts of fields that are no values yet, with what is wrong with them. */
  readonly unread: Readonly<Record<string, { text: string; complaint: string }>>;
  /** The text of the raw editor, while that is open. */
  readonly json: { text: string; complaint: string | undefined } | null;
}

export function beginDraft(values: StagedValues): Draft {
  return { values, unread: {}, json: null };
}

export function fieldText(draft: Draft, field: string): string {
  return draft.unread[field]?.text ?? editorText(draft.values[field]);
}

function without<T>(from: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(from).filter(([one]) => one !== key));
}

/** What the person typed into a field; what was staged is never complained about. */
export function editField(draft: Draft, staged: StagedValues, field: string, shape: FieldShape, text: string): Draft {
  const unread = without(draft.unread, field);
  if (Object.hasOwn(staged, field) && text === editorText(staged[field])) {
    return { ...draft, unread, values: { ...draft.values, [field]: staged[field] } };
  }
  const parsed = parseEdit(shape, text);
  if ('complaint' in parsed) return { ...draft, unread: { ...unread, [field]: { text, complaint: parsed.complaint } } };
  return { ...draft, unread, values: { ...draft.values, [field]: parsed.value } };
}

export function openJson(draft: Draft): Draft {
  return { ...draft, unread: {}, json: { text: JSON.stringify(draft.values, null, 2), complaint: undefined } };
}

export function closeJson(draft: Draft): Draft {
  return { ...draft, json: null };
}

export function editJson(draft: Draft, text: string): Draft {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return { ...draft, values: value, json: { text, complaint: undefined } };
    return { ...draft, json: { text, complaint: 'The arguments are an object: begin with {.' } };
  } catch {
    const complaint = 'This is not JSON. Check quotes, commas and brackets.';
    return { ...draft, json: { text, complaint } };
  }
}

export type FieldChange = 'edited' | 'added' | 'removed';

/** The fields whose values differ from what is staged. */
export function changesOf(draft: Draft, staged: StagedValues): ReadonlyMap<string, FieldChange> {
  const changes = new Map<string, FieldChange>();
  for (const field of new Set([...Object.keys(staged), ...Object.keys(draft.values)])) {
    if (!Object.hasOwn(draft.values, field)) changes.set(field, 'removed');
    else if (!Object.hasOwn(staged, field)) changes.set(field, 'added');
    else if (!isSame(draft.values[field], staged[field])) changes.set(field, 'edited');
  }
  return changes;
}

export function hasComplaints(draft: Draft): boolean {
  return Object.keys(draft.unread).length > 0 || draft.json?.complaint !== undefined;
}
