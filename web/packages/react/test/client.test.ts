import { describe, expect, it, vi } from 'vitest';
import { createSederuntClient } from '../src/client/client.js';
import { newIdempotencyKey } from '../src/client/idempotency.js';
import { isPassing, passingRetryDelay, retryPassing, SederuntRefusal } from '../src/client/refusal.js';
import { answer, fakeFetch, refusal } from './server.js';

function setUp(options: Parameters<typeof createSederuntClient>[0] = {}) {
  const server = fakeFetch();
  return { server, client: createSederuntClient({ fetch: server.fetch, ...options }) };
}

async function refused(call: Promise<unknown>): Promise<SederuntRefusal> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(SederuntRefusal);
  return error as SederuntRefusal;
}

describe('the client', () => {
  it('sends to its own base URL, with its own headers, which are asked for at each call', async () => {
    let token = 0;
    const fetch = vi.fn(() => Promise.resolve(answer({ id: 'a' })));
    const client = createSederuntClient({
      baseUrl: 'https://sederunt.example.org/',
      fetch: fetch as unknown as typeof globalThis.fetch,
      headers: () => {
        token += 1;
        return { authorization: `Bearer ${token}` };
      },
    });
    await client.get('/api/sessions/{id}', { path: { id: 'cli:a b' } });
    await client.get('/api/sessions/{id}', { path: { id: 'x' } });
    const sent = fetch.mock.calls as unknown as [string, RequestInit][];
    expect(sent.map(([url]) => url)).toEqual([
      'https://sederunt.example.org/api/sessions/cli%3Aa%20b',
      'https://sederunt.example.org/api/sessions/x',
    ]);
    expect(sent.map(([, init]) => new Headers(init.headers).get('authorization'))).toEqual(['Bearer 1', 'Bearer 2']);
  });

  it('sends a body as JSON, under the key of the call, and leaves out what is not given', async () => {
    const { server, client } = setUp();
    server.on('POST /api/sessions/human/start', () => answer({}, 201));
    server.on('GET /api/tasks', () => answer({ items: [], next_cursor: null }));
    await client.post('/api/sessions/human/start', { body: { task_id: 't' }, idempotencyKey: 'k' });
    await client.get('/api/tasks', { query: { status: 'active' } });
    expect(server.calls[0]).toMatchObject({ body: { task_id: 't' }, keepalive: false });
    expect(server.calls[0]?.headers.get('idempotency-key')).toBe('k');
    expect(server.calls[0]?.headers.get('content-type')).toBe('application/json');
    expect(server.calls[1]?.query.toString()).toBe('status=active');
    expect(server.calls[1]?.headers.get('content-type')).toBeNull();
  });

  it('tells a refusal by its code, message, field, details and request id', async () => {
    const { server, client } = setUp();
    server.on('GET /api/tasks', () =>
      refusal(429, 'rate_limited', { field: 'limit', details: { quota: 'x' } }, { 'retry-after': '7' }),
    );
    expect(await refused(client.get('/api/tasks', {}))).toMatchObject({
      status: 429,
      code: 'rate_limited',
      message: 'refused: rate_limited',
      field: 'limit',
      details: { quota: 'x' },
      requestId: 'req-1',
      retryAfterMs: 7_000,
    });
  });

  it.each([
    ['a page of HTML', new Response('<h1>Bad gateway</h1>', { status: 502 }), 'unreadable'],
    ['JSON of somebody else', answer({ message: 'no' }, 500), 'unreadable'],
    ['nothing', new Response(null, { status: 503 }), 'unreadable'],
  ])('tells %s as unreadable', async (_name, response, code) => {
    const { server, client } = setUp();
    server.on('GET /api/tasks', () => response);
    expect(await refused(client.get('/api/tasks', {}))).toMatchObject({ code, status: response.status });
  });

  it('tells a server that does not answer, and one that answers half', async () => {
    const { server, client } = setUp();
    server.on('GET /api/tasks', () => Promise.reject(new TypeError('network')));
    server.on('GET /api/agents', () => new Response('{"items": [', { status: 200 }));
    expect(await refused(client.get('/api/tasks', {}))).toMatchObject({ code: 'unreachable', status: 0 });
    expect(await refused(client.get('/api/agents', {}))).toMatchObject({ code: 'unreachable' });
  });

  it('lets a call that the caller gave up reject as given up', async () => {
    const { server, client } = setUp();
    const stop = new AbortController();
    server.on('GET /api/tasks', () => Promise.reject(new DOMException('stopped', 'AbortError')));
    stop.abort();
    await expect(client.get('/api/tasks', { signal: stop.signal })).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('calls the handler of 401, and of nothing else', async () => {
    const onUnauthorized = vi.fn();
    const { server, client } = setUp({ onUnauthorized });
    server.on('GET /api/tasks', () => refusal(401, 'unauthenticated'));
    server.on('GET /api/agents', () => refusal(403, 'denied'));
    await refused(client.get('/api/agents', {}));
    expect(onUnauthorized).not.toHaveBeenCalled();
    await refused(client.get('/api/tasks', {}));
    expect(onUnauthorized).toHaveBeenCalledOnce();
  });

  it('tries again only where that can help', () => {
    const of = (status: number) => new SederuntRefusal({ status, code: 'x', message: 'x' });
    expect([0, 429, 500, 503].map((status) => isPassing(of(status)))).toEqual([true, true, true, true]);
    expect([400, 401, 403, 404, 409, 422].some((status) => isPassing(of(status)))).toBe(false);
    expect([retryPassing(0, of(503)), retryPassing(3, of(503)), retryPassing(0, of(404))]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it('waits as long as the server asks before it tries again, and leaves long waits to people', () => {
    const busy = (retryAfterMs?: number) => new SederuntRefusal({ status: 429, code: 'x', message: 'x', retryAfterMs });
    expect([0, 1, 2, 9].map((failures) => passingRetryDelay(failures, busy()))).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(passingRetryDelay(0, busy(7_000))).toBe(7_000);
    expect(passingRetryDelay(2, busy(1_000))).toBe(4_000);
    expect([retryPassing(0, busy(10_000)), retryPassing(0, busy(11_000))]).toEqual([true, false]);
  });

  it('makes keys that differ', () => {
    expect(new Set(Array.from({ length: 100 }, newIdempotencyKey)).size).toBe(100);
    expect(newIdempotencyKey()).toMatch(/^[0-9a-f]{32}$/);
  });
});
