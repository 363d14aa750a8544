/** How one staged value is edited, and whether it fits: by its schema and by the options of the criteria. */
import { isRecord } from '../vocabulary/content.js';
import type { ContextDimension } from './context.js';

export type EditorKind = 'text' | 'number' | 'boolean' | 'choice' | 'json';

export interface FieldOption {
  value: unknown;
  label: string;
  isFlagged: boolean;
  /** The criteria refuse what has this value. */
  isBlocked: boolean;
}

export interface FieldShape {
  kind: EditorKind;
  options: readonly FieldOption[];
  /** What the schema says about the value. */
  help: string | undefined;
  /** Why the value does not fit its schema. */
  misfit: string | undefined;
}

const KIND_OF_TYPE: Record<string, EditorKind> = {
  string: 'text',
  number: 'number',
  integer: 'number',
  boolean: 'boolean',
  object: 'json',
  array: 'json',
};

const TYPE_WORDS: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'nothing',
};

export function propertyOf(schema: unknown, field: string): Record<string, unknown> {
  const properties = isRecord(schema) ? schema['properties'] : undefined;
  const property = isRecord(properties) && Object.hasOwn(properties, field) ? properties[field] : undefined;
  return isRecord(property) ? property : {};
}

/** The fields that the schema asks for. */
export function requiredOf(schema: unknown): readonly string[] {
  const required = isRecord(schema) ? schema['required'] : undefined;
  return Array.isArray(required) ? required.filter((one) => typeof one === 'string') : [];
}

function typesOf(property: Record<string, unknown>): readonly string[] {
  const { type } = property;
  const types = Array.isArray(type) ? type : [type];
  return types.filter((one) => typeof one === 'string' && Object.hasOwn(TYPE_WORDS, one));
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isRecord(value);
    case 'null':
      return value === null;
    default:
      return typeof value === type;
  }
}

export function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function misfitOf(value: unknown, property: Record<string, unknown>): string | undefined {
  const { enum: choices } = property;
  if (Array.isArray(choices) && !choices.some((choice) => isSame(choice, value))) {
    return `Its contract knows only ${choices.map((choice) => editorText(choice)).join(', ')}.`;
  }
  const types = typesOf(property);
  if (types.length === 0 || types.some((type) => isOfType(value, type))) return undefined;
  return `Its contract asks for ${types.map((type) => TYPE_WORDS[type]).join(' or ')}.`;
}

function optionsOf(property: Record<string, unknown>, dimension: ContextDimension | undefined): FieldOption[] {
  const judged = new Map((dimension?.options ?? []).map((option) => [editorText(option.value), option]));
  const choices = Array.isArray(property['enum']) ? property['enum'] : [...judged.values()].map(({ value }) => value);
  return choices.map((value) => {
    const text = editorText(value);
    const option = judged.get(text);
    const flag = option?.flag;
    return {
      value,
      label: option?.label || text,
      isFlagged: flag !== undefined && flag !== null && flag !== false,
      isBlocked: dimension?.option_styles?.[text]?.['hard_block'] === true,
    };
  });
}

function kindOf(value: unknown, property: Record<string, unknown>, options: readonly FieldOption[]): EditorKind {
  const type = typesOf(property).find((one) => one !== 'null');
  const byType = type === undefined ? undefined : KIND_OF_TYPE[type];
  if (options.length > 0 && byType !== 'json' && !(byType === undefined && typeof value === 'object')) return 'choice';
  if (byType !== undefined) return byType;
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number') return 'number';
  return typeof value === 'boolean' ? 'boolean' : 'json';
}

export interface Judges {
  schema?: unknown;
  criteria?: readonly ContextDimension[] | undefined;
}

/** `value` is undefined where nothing is staged. */
export function fieldShape(field: string, value: unknown, { schema, criteria }: Judges): FieldShape {
  const property = propertyOf(schema, field);
  const dimension = criteria?.find((one) => one.slug === field);
  const options = optionsOf(property, dimension);
  const { description } = property;
  return {
    kind: kindOf(value, property, options),
    options,
    help: typeof description === 'string' ? description : undefined,
    misfit: value === undefined ? undefined : misfitOf(value, property),
  };
}

/** A value as the text of its editor. */
export function editorText(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

export type ParsedEdit = { value: unknown } | { complaint: string };

/** The text of an editor as a value. */
export function parseEdit(shape: Pick<FieldShape, 'kind' | 'options'>, text: string): ParsedEdit {
  switch (shape.kind) {
    case 'text':
      return { value: text };
    case 'number': {
      const number = Number(text);
      return text.trim() === '' || !Number.isFinite(number) ? { complaint: 'Enter a number.' } : { value: number };
    }
    case 'choice': {
      const option = shape.options.find((one) => editorText(one.value) === text);
      if (option === undefined) return { complaint: 'Choose one of the options.' };
      return option.isBlocked ? { complaint: blockedSentence(option.label) } : { value: option.value };
    }
    default:
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return { complaint: 'This is not JSON. Check quotes, commas and brackets.' };
      }
  }
}

export function blockedSentence(option: string): string {
  return `“${option}” is blocked by the criteria. Choose another.`;
}
