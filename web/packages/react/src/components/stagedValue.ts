/** What an approval stages, read with care: rows of other versions, or broken ones, are shown and never decided. */
import type { Approval } from '../api/types.js';
import { isRecord } from '../vocabulary/content.js';

export type StagedValue =
  | { kind: 'tool'; name: string; values: Record<string, unknown> }
  /** Fields to write; `before` is what they replace, as far as it is known. */
  | { kind: 'fields'; values: Record<string, unknown>; before: Record<string, unknown> }
  /** A text, a list of entities, or nothing: one value, shown as the only member of `values`. */
  | { kind: 'whole'; values: Record<string, unknown> }
  /** A run's question, or a step that a person does. */
  | { kind: 'question'; text: string; wantsObject: boolean; isStep: boolean }
  | { kind: 'broken' };

const BROKEN: StagedValue = { kind: 'broken' };

export function readStaged(approval: Approval, entityFields: Record<string, unknown> = {}): StagedValue {
  const staged: unknown = approval.staged;
  if (approval.kind === 'output' && !isRecord(staged)) return { kind: 'whole', values: { output: staged ?? null } };
  if (!isRecord(staged)) return BROKEN;
  switch (approval.kind) {
    case 'tool': {
      const { name, args } = staged;
      if (typeof name !== 'string') return BROKEN;
      return isRecord(args) ? { kind: 'tool', name, values: args } : BROKEN;
    }
    case 'output':
      return { kind: 'fields', values: staged, before: entityFields };
    case 'promotion': {
      const base: unknown = approval.promotion?.base;
      return { kind: 'fields', values: staged, before: isRecord(base) ? base : entityFields };
    }
    case 'question': {
      const { text, schema, step } = staged;
      if (typeof text !== 'string') return BROKEN;
      const wantsObject = isRecord(schema) && schema['type'] === 'object';
      return { kind: 'question', text, wantsObject, isStep: typeof step === 'string' };
    }
    default:
      return BROKEN;
  }
}

/** What a reviewer's edited values are sent as. */
export function verdictEdits(staged: StagedValue, values: Record<string, unknown>) {
  if (staged.kind === 'tool') return { modified_args: values };
  return { modified_output: staged.kind === 'whole' ? values['output'] : values };
}

export type EditorKind = 'text' | 'number' | 'boolean' | 'json';

export function editorKind(value: unknown): EditorKind {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number') return 'number';
  return typeof value === 'boolean' ? 'boolean' : 'json';
}

/** A value as the text of its editor, and back. */
export function editorText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

export type ParsedEdit = { value: unknown } | { complaint: string };

export function parseEdit(kind: EditorKind, text: string): ParsedEdit {
  if (kind === 'text') return { value: text };
  if (kind === 'number') {
    const number = Number(text);
    return text.trim() === '' || !Number.isFinite(number) ? { complaint: 'Enter a number.' } : { value: number };
  }
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { complaint: 'This is not JSON. Check quotes, commas and brackets.' };
  }
}

/** The staged values with the edits in, or the first complaint by its field. */
export function editedValues(
  values: Record<string, unknown>,
  edits: Record<string, string>,
): { values: Record<string, unknown>; changed: string[]; complaints: Record<string, string> } {
  const result: Record<string, unknown> = { ...values };
  const changed: string[] = [];
  const complaints: Record<string, string> = {};
  for (const [field, text] of Object.entries(edits)) {
    if (!Object.hasOwn(values, field) || text === editorText(values[field])) continue;
    const parsed = parseEdit(editorKind(values[field]), text);
    if ('complaint' in parsed) {
      complaints[field] = parsed.complaint;
    } else {
      result[field] = parsed.value;
      changed.push(field);
    }
  }
  return { values: result, changed, complaints };
}
