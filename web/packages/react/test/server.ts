/** A server of the contract in memory: a log with pages and streams, and whatever a test wants of other routes. */
import type { SessionEvent } from '../src/api/types.js';

export interface SeenCall {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  body: unknown;
  keepalive: boolean;
}

type Answer = Response | Promise<Response>;
type Route = (call: SeenCall, signal: AbortSignal | undefined) => Answer;

export function answer(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(status === 204 ? null : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

export function refusal(status: number, code: string, more: Record<string, unknown> = {}, headers = {}): Response {
  return answer({ error: { code, message: `refused: ${code}`, request_id: 'req-1', ...more } }, status, headers);
}

/** A `fetch` that answers by routes, named by method and path; the last one given wins. */
export function fakeFetch() {
  const calls: SeenCall[] = [];
  const routes: [RegExp, Route][] = [];
  const fetch = (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input), 'http://127.0.0.1:7070');
    const call: SeenCall = {
      method: init.method ?? 'GET',
      path: decodeURIComponent(url.pathname),
      query: url.searchParams,
      headers: new Headers(init.headers),
      body: typeof init.body === 'string' ? JSON.parse(init.body) : undefined,
      keepalive: init.keepalive === true,
    };
    calls.push(call);
    const signal = init.signal ?? undefined;
    const name = `${call.method} ${call.path}`;
    const route = routes.findLast(([pattern]) => pattern.test(name))?.[1];
    return Promise.resolve().then(() => (route === undefined ? refusal(404, 'not_found') : route(call, signal)));
  };
  return {
    fetch: fetch as typeof globalThis.fetch,
    calls,
    on(name: string | RegExp, route: Route) {
      const pattern = typeof name === 'string' ? new RegExp(`^${name.replaceAll('.', '\\.')}$`) : name;
      routes.push([pattern, route]);
    },
    sent: (name: string) => calls.filter((call) => `${call.method} ${call.path}` === name),
  };
}

export function event(sequence: number, more: Partial<Record<keyof SessionEvent, unknown>> = {}): SessionEvent {
  return {
    session_id: 's',
    sequence,
    type: 'user.message',
    role: 'user',
    content: [{ type: 'text', text: `line ${sequence}` }],
    metadata: null,
    subthread_id: null,
    external_event_id: null,
    turn: null,
    author: 'ann',
    at: '2026-01-31T09:30:00.000000Z',
    ...more,
  } as SessionEvent;
}

/** A stream that the test writes. */
export class FakeStream {
  readonly call: SeenCall;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #isOpen = true;
  readonly response: Response;

  constructor(call: SeenCall, signal: AbortSignal | undefined) {
    this.call = call;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.#isOpen = false;
      },
    });
    signal?.addEventListener('abort', () => this.breakOff());
    this.response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  bytes(bytes: Uint8Array): void {
    if (this.#isOpen) this.#controller?.enqueue(bytes);
  }

  write(text: string): void {
    this.bytes(new TextEncoder().encode(text));
  }

  send(name: string, data: unknown, id?: string): void {
    this.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  log(one: SessionEvent): void {
    this.write(`id: ${one.sequence}\ndata: ${JSON.stringify(one)}\n\n`);
  }

  end(): void {
    if (this.#isOpen) this.#controller?.close();
    this.#isOpen = false;
  }

  breakOff(): void {
    if (this.#isOpen) this.#controller?.error(new TypeError('network error'));
    this.#isOpen = false;
  }
}

/** The routes of one session's log: `events` is the log, and open streams are told about what is appended. */
export function fakeLog(server: ReturnType<typeof fakeFetch>, sessionId = 's') {
  const events: SessionEvent[] = [];
  const streams: FakeStream[] = [];
  const log = {
    events,
    streams,
    /** Set to refuse streams. */
    refuse: undefined as (() => Response) | undefined,
    get open(): FakeStream | undefined {
      return streams.findLast((stream) => stream.isOpen);
    },
    append(more: Partial<Record<keyof SessionEvent, unknown>> = {}): SessionEvent {
      const one = event((events.at(-1)?.sequence ?? 0) + 1, more);
      events.push(one);
      for (const stream of streams) if (stream.isOpen) stream.log(one);
      return one;
    },
  };
  server.on(`GET /api/sessions/${sessionId}/events`, ({ query }) => {
    const limit = Number(query.get('limit') ?? 100);
    const after = Number(query.get('after_sequence') ?? 0);
    const before = Number(query.get('before_sequence') ?? Number.POSITIVE_INFINITY);
    const types = query.get('types')?.split(',');
    const found = events.filter(
      (one) => one.sequence > after && one.sequence < before && (types === undefined || types.includes(one.type)),
    );
    if (query.get('order') === 'desc') found.reverse();
    const page = found.slice(0, limit);
    const has_more = found.length > page.length;
    return answer({
      events: page,
      has_more,
      last_sequence: events.at(-1)?.sequence ?? 0,
      next_after: page.at(-1)?.sequence ?? after,
    });
  });
  server.on(`GET /api/sessions/${sessionId}/stream`, (call, signal) => {
    if (log.refuse !== undefined) return log.refuse();
    const stream = new FakeStream(call, signal);
    streams.push(stream);
    const after = Number(call.headers.get('last-event-id') ?? call.query.get('after') ?? 0);
    for (const one of events) if (one.sequence > after) stream.log(one);
    stream.send('ready', {});
    return stream.response;
  });
  return log;
}
