/** Calls of the HTTP API, made by a walk beside the browser: what workers, other programs and the world do. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export class Api {
  readonly url: string;
  readonly #headers: Record<string, string>;

  constructor(url: string, key?: string) {
    this.url = url;
    this.#headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  }

  async call(method: string, path: string, body?: unknown): Promise<JsonObject> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { ...this.#headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? {} : JSON.parse(text);
  }

  get(path: string): Promise<JsonObject> {
    return this.call('GET', path);
  }

  post(path: string, body: unknown = {}): Promise<JsonObject> {
    return this.call('POST', path, body);
  }
}

/** The objects of a list that an answer holds under this name. */
export function listOf(answer: JsonObject, name: string): JsonObject[] {
  const list = answer[name];
  if (!Array.isArray(list)) throw new Error(`The answer has no list ${name}: ${JSON.stringify(answer)}`);
  return list.map((one) => {
    if (one === null || typeof one !== 'object' || Array.isArray(one))
      throw new Error(`${name} holds ${JSON.stringify(one)}`);
    return one;
  });
}

export function textOf(answer: JsonObject, name: string): string {
  const value = answer[name];
  if (typeof value !== 'string') throw new Error(`The answer has no text ${name}: ${JSON.stringify(answer)}`);
  return value;
}

export function numberOf(answer: JsonObject, name: string): number {
  const value = answer[name];
  if (typeof value !== 'number') throw new Error(`The answer has no number ${name}: ${JSON.stringify(answer)}`);
  return value;
}

export function objectOf(answer: JsonObject, name: string): JsonObject {
  const value = answer[name];
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Error(`The answer has no object ${name}: ${JSON.stringify(answer)}`);
  }
  return value;
}
