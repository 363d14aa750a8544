/** What stands around an approval: the types of `?expand=context`, and how its parts are read with care. */
import type { Approval } from '../api/types.js';
import { isRecord } from '../vocabulary/content.js';

export interface ContextOption {
  value: unknown;
  label?: string | null;
  flag?: unknown;
}

export interface ContextDimension {
  slug: string;
  name?: string | null;
  options?: readonly ContextOption[];
  option_styles?: Record<string, Record<string, unknown>>;
}

/** As far as the person may see it; the rest is null. */
export interface ApprovalContext {
  session?: {
    id: string;
    title: string | null;
    session_type: string;
    status: string;
    agent_slug: string | null;
  } | null;
  task?: { id: string; slug: string; name: string } | null;
  entity?: {
    id: string;
    type_slug: string;
    title: string | null;
    fields: Record<string, unknown>;
    version: number;
  } | null;
  contract?: { type: string; schema?: unknown; fields?: unknown } | null;
  criteria?: readonly ContextDimension[];
  attempt?: { number: number; limit: number } | null;
  tool?: { name: string | null; description: string | null; input_schema?: unknown } | null;
}

export type ApprovalInContext = Approval & { context?: ApprovalContext | undefined };

export function contextOf(approval: ApprovalInContext): ApprovalContext {
  const context: unknown = approval.context;
  return isRecord(context) ? (context as ApprovalContext) : {};
}

/** The JSON Schema that an edit has to keep: of a call its arguments, of an output the contract of its run. */
export function schemaOf(approval: ApprovalInContext): unknown {
  const { contract, tool } = contextOf(approval);
  if (approval.kind === 'tool') return approval.input_schema ?? tool?.input_schema;
  return approval.kind === 'output' ? contract?.schema : undefined;
}

function pathOfMapped(fields: unknown, field: string): string | null {
  if (Array.isArray(fields)) return fields.includes(field) ? field : null;
  if (!isRecord(fields)) return field;
  const found = Object.entries(fields).find(([, path]) => path === field || path === `/${field}`);
  return found?.[0] ?? null;
}

/** The field of the entity that a value of the output is written to; null if it is written nowhere. */
export function writtenField(context: ApprovalContext, value: string): string | null {
  return pathOfMapped(context.contract?.fields ?? undefined, value);
}
