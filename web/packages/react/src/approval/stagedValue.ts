/** What an approval stages, read with care: rows of other versions, or broken ones, are shown and never decided. */
import { isRecord } from '../vocabulary/content.js';
import { type ApprovalContext, type ApprovalInContext, contextOf, writtenField } from './context.js';

type Values = Record<string, unknown>;

/** A run's question, or a step that a person does. */
export interface StagedQuestion {
  kind: 'question';
  text: string;
  schema: unknown;
  isStep: boolean;
  description: string | undefined;
  input: unknown;
  /** Why the person's answer was not taken before. */
  denied: string | undefined;
  /** The form by which it is answered. */
  viewId: string | undefined;
}

/** Values that are approved, with edits or without, or rejected. */
export type StagedChange =
  | { kind: 'tool'; name: string; values: Values }
  /** Fields to write. `before` is what they replace, as far as it is known; `stale` are those that changed meanwhile. */
  | { kind: 'fields'; values: Values; before: Values | undefined; kept: Values; stale: readonly string[] }
  /** A text, a list of entities, or nothing: one value, shown as the only member of `values`. */
  | { kind: 'whole'; values: Values };

export type StagedValue = StagedChange | StagedQuestion | { kind: 'broken' };

const BROKEN: StagedValue = { kind: 'broken' };

/** The entity's fields by the names of the values that replace them, and those that stay as they are. */
function outputFields(staged: Values, fields: Values | undefined, context: ApprovalContext): StagedValue {
  if (fields === undefined) return { kind: 'fields', values: staged, before: undefined, kept: {}, stale: [] };
  const before: Values = {};
  const written = new Set<string>();
  for (const value of Object.keys(staged)) {
    const field = writtenField(context, value);
    if (field === null) continue;
    written.add(field);
    if (Object.hasOwn(fields, field)) before[value] = fields[field];
  }
  const kept = Object.fromEntries(Object.entries(fields).filter(([field]) => !written.has(field)));
  return { kind: 'fields', values: staged, before, kept, stale: [] };
}

function promotedFields(approval: ApprovalInContext, staged: Values, fields: Values | undefined): StagedValue {
  const given: unknown = approval.promotion?.base;
  const base = isRecord(given) ? given : {};
  const before = fields ?? base;
  const kept = Object.fromEntries(Object.entries(before).filter(([field]) => !Object.hasOwn(staged, field)));
  const isStale = (field: string) => JSON.stringify(before[field]) !== JSON.stringify(base[field]);
  return { kind: 'fields', values: staged, before, kept, stale: Object.keys(staged).filter(isStale) };
}

function question(staged: Values): StagedValue {
  const { text, schema, description, input, denied, view_id } = staged;
  if (typeof text !== 'string') return BROKEN;
  const reason = isRecord(denied) ? denied['reason'] : undefined;
  return {
    kind: 'question',
    text,
    schema,
    isStep: Object.hasOwn(staged, 'step'),
    description: typeof description === 'string' ? description : undefined,
    input,
    denied: typeof reason === 'string' ? reason : undefined,
    viewId: typeof view_id === 'string' ? view_id : undefined,
  };
}

/** `entityFields` are the fields of the entity as they are now, where the approval does not bring them. */
export function readStaged(approval: ApprovalInContext, entityFields?: Values): StagedValue {
  const staged: unknown = approval.staged;
  const context = contextOf(approval);
  const isPending = approval.state === 'pending';
  // What a decided approval replaced is not known any more.
  const fields = isPending && isRecord(context.entity?.fields) ? context.entity.fields : entityFields;
  if (approval.kind === 'output' && !isRecord(staged)) return { kind: 'whole', values: { output: staged ?? null } };
  if (!isRecord(staged)) return BROKEN;
  switch (approval.kind) {
    case 'tool': {
      const { name, args } = staged;
      return typeof name === 'string' && isRecord(args) ? { kind: 'tool', name, values: args } : BROKEN;
    }
    case 'output':
      // Only a contract of the type `entity` writes to the entity of the session.
      return outputFields(staged, (context.contract?.type ?? 'entity') === 'entity' ? fields : undefined, context);
    case 'promotion':
      return isPending ? promotedFields(approval, staged, fields) : outputFields(staged, undefined, context);
    case 'question':
      return question(staged);
    default:
      return BROKEN;
  }
}

/** What a reviewer's edited values are sent as. */
export function verdictEdits(staged: StagedChange, values: Readonly<Values>) {
  if (staged.kind === 'tool') return { modified_args: values };
  return { modified_output: staged.kind === 'whole' ? values['output'] : values };
}

/** The edits that a verdict holds, to go on with after it was refused. */
export function editsOf(
  staged: StagedChange,
  verdict: { modified_args?: unknown; modified_output?: unknown } | null,
): Values | undefined {
  const edits = staged.kind === 'tool' ? verdict?.modified_args : verdict?.modified_output;
  if (edits === undefined) return undefined;
  if (staged.kind === 'whole') return { output: edits };
  return isRecord(edits) ? edits : undefined;
}
