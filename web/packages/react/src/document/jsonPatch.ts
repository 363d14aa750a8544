/**
 * JSON Patch (RFC 6902), as the server applies it: a list of operations that is applied whole or not at all. Values are never
 * changed in place, so that components compare them by identity.
 */

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

export type PatchOp =
  | { op: 'add' | 'replace' | 'test'; path: string; value: JsonValue }
  | { op: 'remove'; path: string }
  | { op: 'move' | 'copy'; from: string; path: string };

/** A patch that does not fit the document. */
export class PatchError extends Error {
  override readonly name = 'PatchError';
}

function fail(reason: string): never {
  throw new PatchError(reason);
}

/** The tokens of a JSON pointer. */
export function pointerTokens(pointer: string): string[] {
  if (pointer === '') return [];
  if (!pointer.startsWith('/') || /~(?![01])/.test(pointer)) fail(`\`${pointer}\` is no JSON pointer`);
  const tokens = pointer.slice(1).split('/');
  return tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** A key as a token of a pointer: `a/b` becomes `a~1b`. */
export function pointerToken(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

function isObject(value: JsonValue | undefined): value is { [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function arrayIndex(token: string, length: number): number {
  if (!/^(0|[1-9]\d*)$/.test(token)) fail(`\`${token}\` is no index`);
  const index = Number(token);
  return index < length ? index : fail(`there is no element ${token}`);
}

function child(parent: JsonValue, token: string): JsonValue {
  if (Array.isArray(parent)) return parent[arrayIndex(token, parent.length)] as JsonValue;
  if (isObject(parent) && Object.hasOwn(parent, token)) return parent[token] as JsonValue;
  return fail(`there is no \`${token}\``);
}

export function valueAt(document: JsonValue, pointer: string): JsonValue {
  return pointerTokens(pointer).reduce(child, document);
}

type Edit = (parent: JsonValue, token: string) => JsonValue;

/** The document with one parent edited; everything beside the path is the same objects. */
function editAt(document: JsonValue, tokens: readonly string[], edit: Edit): JsonValue {
  const [token, ...rest] = tokens;
  if (token === undefined) return fail('the whole document cannot be removed');
  if (rest.length === 0) return edit(document, token);
  const edited = editAt(child(document, token), rest, edit);
  if (Array.isArray(document)) return document.with(Number(token), edited);
  return withKey(document as { [key: string]: JsonValue }, token, edited);
}

function withKey(parent: { [key: string]: JsonValue }, key: string, value: JsonValue): JsonValue {
  if (key === '__proto__') fail('`__proto__` is no key of a document');
  return { ...parent, [key]: value };
}

function added(value: JsonValue): Edit {
  return (parent, token) => {
    if (Array.isArray(parent)) {
      const at = token === '-' ? parent.length : arrayIndex(token, parent.length + 1);
      return parent.toSpliced(at, 0, value);
    }
    return isObject(parent) ? withKey(parent, token, value) : fail('only objects and arrays have members');
  };
}

function replaced(value: JsonValue): Edit {
  return (parent, token) => {
    child(parent, token);
    if (Array.isArray(parent)) return parent.with(Number(token), value);
    return withKey(parent as { [key: string]: JsonValue }, token, value);
  };
}

const removed: Edit = (parent, token) => {
  child(parent, token);
  if (Array.isArray(parent)) return parent.toSpliced(Number(token), 1);
  const { [token]: _gone, ...rest } = parent as { [key: string]: JsonValue };
  return rest;
};

/** Equal as JSON: the order of keys does not matter, and 1 is 1.0. */
export function jsonEqual(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((value, at) => jsonEqual(value, other[at] as JsonValue));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const keys = Object.keys(one);
  if (keys.length !== Object.keys(other).length) return false;
  return keys.every((key) => Object.hasOwn(other, key) && jsonEqual(one[key] as JsonValue, other[key] as JsonValue));
}

function put(document: JsonValue, path: string, value: JsonValue, edit: (value: JsonValue) => Edit): JsonValue {
  const tokens = pointerTokens(path);
  return tokens.length === 0 ? value : editAt(document, tokens, edit(value));
}

function applyOp(document: JsonValue, op: PatchOp): JsonValue {
  switch (op.op) {
    case 'add':
      return put(document, op.path, op.value, added);
    case 'replace':
      return put(document, op.path, op.value, replaced);
    case 'remove':
      return editAt(document, pointerTokens(op.path), removed);
    case 'copy':
      return put(document, op.path, valueAt(document, op.from), added);
    case 'move': {
      if (op.path.startsWith(`${op.from}/`)) fail('a value cannot be moved into itself');
      const value = valueAt(document, op.from);
      return op.from === op.path
        ? document
        : put(editAt(document, pointerTokens(op.from), removed), op.path, value, added);
    }
    case 'test':
      return jsonEqual(valueAt(document, op.path), op.value) ? document : fail(`\`${op.path}\` has another value`);
    default:
      return fail('unknown operation');
  }
}

/** The document after the patch. Throws a {@link PatchError} if an operation does not fit. */
export function applyPatch(document: JsonValue, ops: readonly PatchOp[]): JsonValue {
  return ops.reduce(applyOp, document);
}
