/**
 * The typed client: one function per method, whose paths, parameters, bodies and answers follow the description of the
 * API. It knows no caching and no repetition; hooks do that.
 */
import type { paths } from '../api/schema.js';
import { refusalOf, type SederuntRefusal, unreachable } from './refusal.js';

export type HeaderSource = Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);

export interface SederuntClientOptions {
  /** Where the server is, such as `https://sederunt.example.org`. Empty: the page's own origin. */
  baseUrl?: string | undefined;
  /** Sent with every call, such as `Authorization`. A function is asked for each call, so that tokens can be renewed. */
  headers?: HeaderSource | undefined;
  fetch?: typeof fetch | undefined;
  /** Called for every 401, before the call rejects. */
  onUnauthorized?: ((refusal: SederuntRefusal) => void) | undefined;
  /** Sent with every call. `same-origin` unless said otherwise. */
  credentials?: RequestCredentials | undefined;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Operation<P extends keyof paths, M extends Method> = M extends keyof paths[P] ? NonNullable<paths[P][M]> : never;
type JsonOf<R> = R extends { content: { 'application/json': infer Body } } ? Body : undefined;
type AnswerOf<O> = O extends { responses: infer R } ? JsonOf<R[Extract<keyof R, 200 | 201 | 202>]> : never;
type ParametersOf<O, In extends string> = O extends { parameters: infer P }
  ? In extends keyof P
    ? NonNullable<P[In]>
    : never
  : never;
type BodyOf<O> = O extends { requestBody?: infer B } ? JsonOf<NonNullable<B>> : never;
type Part<Name extends string, Value> = [Value] extends [never] ? unknown : { [K in Name]: Value };
type OptionalPart<Name extends string, Value> = [Value] extends [never] ? unknown : { [K in Name]?: Value };

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Lets the call outlive the page. */
  keepalive?: boolean | undefined;
  /** See {@link newIdempotencyKey}. */
  idempotencyKey?: string | undefined;
}

type CallInput<O> = CallOptions &
  Part<'path', ParametersOf<O, 'path'>> &
  OptionalPart<'query', ParametersOf<O, 'query'>> &
  Part<'body', BodyOf<O>>;

type Call<M extends Method> = <P extends PathsWith<M>>(
  path: P,
  input: CallInput<Operation<P, M>>,
) => Promise<AnswerOf<Operation<P, M>>>;

/** A call by plain strings, for routes that the description does not have. */
export interface RawCall extends CallOptions {
  method?: string;
  query?: Record<string, unknown> | undefined;
  headers?: Record<string, string> | undefined;
  body?: unknown;
}

export interface SederuntClient {
  readonly baseUrl: string;
  readonly get: Call<'get'>;
  readonly post: Call<'post'>;
  readonly put: Call<'put'>;
  readonly patch: Call<'patch'>;
  readonly delete: Call<'delete'>;
  /** Sends a call and hands back the answer as it is. Rejects with a {@link SederuntRefusal} unless it is a success. */
  open(path: string, call?: RawCall): Promise<Response>;
  /** As `open`, with the JSON of the answer. The caller names its type. */
  json<T>(path: string, call?: RawCall): Promise<T>;
}

function fillPath(template: string, values: Record<string, unknown> | undefined): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values?.[name])));
}

function queryText(query: Record<string, unknown> | undefined): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) search.append(name, String(value));
  }
  const joined = search.toString();
  return joined === '' ? '' : `?${joined}`;
}

interface LooseInput extends CallOptions {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
}

export function createSederuntClient(options: SederuntClientOptions = {}): SederuntClient {
  const baseUrl = (options.baseUrl ?? '').replace(/\/+$/, '');

  async function headersOf(call: RawCall): Promise<Record<string, string>> {
    const given = typeof options.headers === 'function' ? await options.headers() : options.headers;
    return {
      accept: 'application/json',
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(call.idempotencyKey === undefined ? {} : { 'idempotency-key': call.idempotencyKey }),
      ...given,
      ...call.headers,
    };
  }

  async function send(path: string, call: RawCall): Promise<Response> {
    const headers = await headersOf(call);
    const request: RequestInit = {
      method: call.method ?? 'GET',
      headers,
      credentials: options.credentials ?? 'same-origin',
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
      ...(call.keepalive === true ? { keepalive: true } : {}),
    };
    // Looked up at each call: tests and instrumentation replace the global one.
    return (options.fetch ?? globalThis.fetch)(`${baseUrl}${path}${queryText(call.query)}`, request);
  }

  async function open(path: string, call: RawCall = {}): Promise<Response> {
    const response = await send(path, call).catch((cause: unknown) => {
      if (call.signal?.aborted === true) throw cause;
      throw unreachable(cause);
    });
    if (response.ok) return response;
    const refusal = await refusalOf(response);
    if (refusal.status === 401) options.onUnauthorized?.(refusal);
    throw refusal;
  }

  async function json<T>(path: string, call: RawCall = {}): Promise<T> {
    const response = await open(path, call);
    if (response.status === 204) return undefined as T;
    return (await response.json().catch((cause: unknown) => {
      throw unreachable(cause);
    })) as T;
  }

  function caller<M extends Method>(method: M): Call<M> {
    return ((path: string, input: LooseInput) => {
      const { path: values, ...call } = input;
      return json(fillPath(path, values), { ...call, method: method.toUpperCase() });
    }) as unknown as Call<M>;
  }

  return {
    baseUrl,
    get: caller('get'),
    post: caller('post'),
    put: caller('put'),
    patch: caller('patch'),
    delete: caller('delete'),
    open,
    json,
  };
}
