/** Which fields of which entity a session has written, as far as its result, its decisions and its task tell. */
import type { Approval, Session, Task } from '@sederunt/react';

export interface WrittenField {
  entity: string;
  name: string;
  value: unknown;
  /** Undefined: written without a decision. Null: decided by a credential without a user. */
  decidedBy?: string | null;
  at?: string | undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `report.title` of `{report: {title}}`. */
function valueAt(value: unknown, path: string): unknown {
  let at = value;
  for (const key of path.split('.')) at = isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  return at;
}

/** A contract's `fields`: names, a map from the entity's field to a path in the result, or none, which means all. */
export function fieldValues(result: unknown, fields: unknown): readonly [string, unknown][] {
  if (!isRecord(result)) return [];
  const pairs = Array.isArray(fields)
    ? fields.map((name): [string, unknown] => [String(name), result[String(name)]])
    : isRecord(fields)
      ? Object.entries(fields).map(([name, path]): [string, unknown] => [name, valueAt(result, String(path))])
      : Object.entries(result);
  return pairs.filter(([, value]) => value !== undefined);
}

function promoted(approval: Approval): WrittenField[] {
  const { promotion } = approval;
  if (promotion === null || promotion === undefined || approval.state !== 'approved') return [];
  const values = {
    ...(isRecord(approval.staged) ? approval.staged : {}),
    ...(isRecord(approval.edited) ? approval.edited : {}),
  };
  return Object.entries(values).map(([name, value]) => ({
    entity: promotion.entity_id ?? promotion.entity_type ?? 'a new entity',
    name,
    value,
    decidedBy: approval.decided_by ?? null,
    at: approval.decided_at ?? undefined,
  }));
}

export function writtenFields(
  row: Session,
  approvals: readonly Approval[],
  task: Task | undefined,
): readonly WrittenField[] {
  const promotions = approvals.flatMap(promoted);
  if (promotions.length > 0) return promotions;
  const output = task?.output;
  if (row.status !== 'completed' || output?.type !== 'entity' || !row.entity_id) return [];
  const decided = approvals.find((approval) => approval.kind === 'output' && approval.state === 'approved');
  const entity = row.entity_id;
  return fieldValues(row.result, output.fields).map(([name, value]) => ({
    entity,
    name,
    value,
    ...(decided === undefined ? {} : { decidedBy: decided.decided_by ?? null, at: decided.decided_at ?? undefined }),
  }));
}
