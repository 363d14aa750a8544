import { act } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { applyPatch, type JsonValue, jsonEqual, type PatchOp, pointerToken } from '../src/document/jsonPatch.js';
import { readPresence, usePresence } from '../src/hooks/usePresence.js';
import { useSessionDocument } from '../src/hooks/useSessionDocument.js';
import { pass, setUp, setVisibility } from './render.js';
import { answer, event, fakeLog, refusal } from './server.js';

describe('a JSON patch', () => {
  it.each([
    [{ a: 1 }, [{ op: 'add', path: '/b', value: 2 }], { a: 1, b: 2 }],
    [[1, 3], [{ op: 'add', path: '/1', value: 2 }], [1, 2, 3]],
    [[1], [{ op: 'add', path: '/-', value: 2 }], [1, 2]],
    [{ a: { b: [1] } }, [{ op: 'replace', path: '/a/b/0', value: 'x' }], { a: { b: ['x'] } }],
    [{ a: 1, b: 2 }, [{ op: 'remove', path: '/a' }], { b: 2 }],
    [[1, 2, 3], [{ op: 'remove', path: '/1' }], [1, 3]],
    [{ a: [1] }, [{ op: 'copy', from: '/a', path: '/b' }], { a: [1], b: [1] }],
    [{ a: 1 }, [{ op: 'move', from: '/a', path: '/b' }], { b: 1 }],
    [{ 'a/b': { '~': 1 } }, [{ op: 'replace', path: '/a~1b/~0', value: 2 }], { 'a/b': { '~': 2 } }],
    [{ a: 1 }, [{ op: 'replace', path: '', value: [] }], []],
    [{ a: { x: 1, y: 2 } }, [{ op: 'test', path: '/a', value: { y: 2.0, x: 1 } }], { a: { x: 1, y: 2 } }],
    [{ '': 1 }, [{ op: 'replace', path: '/', value: 2 }], { '': 2 }],
  ] as [JsonValue, PatchOp[], JsonValue][])('of %j by %j', (before, ops, after) => {
    const kept = structuredClone(before);
    expect(applyPatch(before, ops)).toEqual(after);
    expect(before).toEqual(kept);
  });

  it.each([
    [{ a: 1 }, { op: 'remove', path: '/b' }],
    [{ a: 1 }, { op: 'replace', path: '/b', value: 1 }],
    [[1], { op: 'add', path: '/3', value: 1 }],
    [[1], { op: 'add', path: '/01', value: 1 }],
    [[1], { op: 'replace', path: '/-', value: 1 }],
    [{ a: 1 }, { op: 'test', path: '/a', value: 2 }],
    [{ a: { b: 1 } }, { op: 'move', from: '/a', path: '/a/b' }],
    [{ a: 1 }, { op: 'add', path: 'a', value: 1 }],
    [{ a: 1 }, { op: 'add', path: '/~2', value: 1 }],
    [{ a: 1 }, { op: 'add', path: '/a/b', value: 1 }],
    [{}, { op: 'add', path: '/__proto__', value: { x: 1 } }],
    [{}, { op: 'replace', path: '/toString', value: 1 }],
    [{}, { op: 'remove', path: '' }],
    [{}, { op: 'invent', path: '/a' }],
  ] as [JsonValue, PatchOp][])('refuses %j by %j', (before, op) => {
    expect(() => applyPatch(before, [op])).toThrow(expect.objectContaining({ name: 'PatchError' }));
  });

  it('keeps what it did not touch', () => {
    const before = { a: { x: 1 }, b: { y: 2 } };
    const after = applyPatch(before, [{ op: 'replace', path: '/a/x', value: 2 }]) as typeof before;
    expect(after.b).toBe(before.b);
    expect(jsonEqual([1, { a: null }], [1, { a: null }])).toBe(true);
    expect(jsonEqual({ a: 1 }, { b: 1 })).toBe(false);
    expect(pointerToken('a/b~c')).toBe('a~1b~0c');
  });
});

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const DOC = '/api/sessions/s/documents/scratch/plan';

/** The documents of the contract: one document, judged by the rule of equal bases. */
function shared(initial: JsonValue = { title: 'a', items: [] }) {
  const page = setUp();
  const log = fakeLog(page.server);
  log.append();
  let value = initial;
  let sequence = 0;
  const commit = (ops: PatchOp[]) => {
    value = applyPatch(value, ops);
    const metadata = { document: { kind: 'scratch', id: 'plan' }, base_sequence: sequence, ops };
    sequence = log.append({ type: 'state.patch', metadata }).sequence;
    return sequence;
  };
  page.server.on(`GET ${DOC}`, () =>
    answer({ document: { kind: 'scratch', id: 'plan' }, sequence, value, digest: 'd' }),
  );
  page.server.on(`POST ${DOC}/patch`, ({ body }) => {
    const { base_sequence, ops } = body as { base_sequence: number; ops: PatchOp[] };
    if (base_sequence !== sequence) return refusal(409, 'stale_base', { details: { sequence, conflicts: ['/title'] } });
    const inverse = [{ op: 'replace', path: '', value }];
    return answer({ sequence: commit(ops), rebased: false, inverse }, 201);
  });
  return { ...page, log, commit, value: () => value, sequence: () => sequence };
}

const title = (text: string): PatchOp[] => [{ op: 'replace', path: '/title', value: text }];

describe('useSessionDocument', () => {
  it('reads the document after its stream is open, so that no patch falls in between', async () => {
    const { hook, server, commit, value } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    expect(result.current.isLoading).toBe(true);
    await pass(50);
    const names = server.calls.map((call) => call.path);
    expect(names.indexOf(DOC)).toBeGreaterThan(names.indexOf('/api/sessions/s/stream'));
    expect(result.current.value).toEqual(value());
    commit(title('theirs'));
    await pass();
    expect(result.current.value).toEqual({ title: 'theirs', items: [] });
  });

  it('applies a patch that comes while the document is read once', async () => {
    const { hook, server, commit, value } = shared([]);
    let release: (() => void) | undefined;
    server.on(`GET ${DOC}`, () => {
      const read = answer({ document: {}, sequence: 0, value: [], digest: 'd' });
      return new Promise((resolve) => {
        release = () => resolve(read);
      });
    });
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    commit([{ op: 'add', path: '/-', value: 1 }]);
    commit([{ op: 'add', path: '/-', value: 2 }]);
    await pass(50);
    release?.();
    await pass(50);
    expect(result.current.value).toEqual(value());
  });

  it('shows a patch at once, sends it with its base, and confirms it once', async () => {
    const { hook, server, value } = shared([]);
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    act(() => result.current.patch([{ op: 'add', path: '/-', value: 1 }]));
    expect(result.current).toMatchObject({ value: [1], isSaving: true });
    act(() => result.current.patch([{ op: 'add', path: '/-', value: 2 }]));
    expect(result.current.value).toEqual([1, 2]);
    await pass(100);
    expect(result.current).toMatchObject({ value: [1, 2], isSaving: false, conflict: null });
    expect(value()).toEqual([1, 2]);
    const sent = server.sent(`POST ${DOC}/patch`);
    expect(sent.map((call) => (call.body as { base_sequence: number }).base_sequence)).toEqual([0, 2]);
    expect(sent[0]?.query.get('inverse')).toBe('true');
  });

  it('waits for the log where a patch was taken on an older base', async () => {
    const { hook, server, commit, sequence } = shared([]);
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    server.on(`POST ${DOC}/patch`, ({ body }) => {
      commit([{ op: 'add', path: '/0', value: 'theirs' }]);
      commit((body as { ops: PatchOp[] }).ops);
      return answer({ sequence: sequence(), rebased: true }, 201);
    });
    act(() => result.current.patch([{ op: 'add', path: '/-', value: 'mine' }]));
    await pass(100);
    expect(result.current).toMatchObject({ value: ['theirs', 'mine'], isSaving: false, sequence: sequence() });
  });

  it('tells a conflict with its paths, and makes the patch again or drops it', async () => {
    const { hook, server, commit, value } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    server.on(`POST ${DOC}/patch`, () => {
      commit(title('theirs'));
      return refusal(409, 'stale_base', { details: { sequence: 2, conflicts: ['/title'] } });
    });
    act(() => result.current.patch(title('mine')));
    act(() => result.current.patch([{ op: 'add', path: '/items/-', value: 1 }]));
    await pass(100);
    expect(result.current.value).toEqual({ title: 'theirs', items: [] });
    expect(result.current.conflict).toMatchObject({ paths: ['/title'] });
    expect(result.current.conflict?.ops.length).toBe(2);
    server.on(`POST ${DOC}/patch`, ({ body }) =>
      answer({ sequence: commit((body as { ops: PatchOp[] }).ops), rebased: false }, 201),
    );
    act(() => result.current.conflict?.retry());
    await pass(100);
    expect(result.current).toMatchObject({ value: { title: 'mine', items: [1] }, conflict: null });
    expect(value()).toEqual({ title: 'mine', items: [1] });
  });

  it('takes a patch back by its inverse', async () => {
    const { hook, value } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    expect(result.current.canUndo).toBe(false);
    act(() => result.current.patch(title('b')));
    await pass(100);
    expect(result.current.canUndo).toBe(true);
    act(() => result.current.undo());
    await pass(100);
    expect(value()).toEqual({ title: 'a', items: [] });
    expect(result.current).toMatchObject({ value: { title: 'a', items: [] }, canUndo: false });
  });

  it.each([
    ['no answer', () => Promise.reject(new TypeError('network'))],
    ['401', () => refusal(401, 'unauthenticated')],
    ['503', () => refusal(503, 'unavailable')],
  ])('keeps a patch on %s, and sends it again under the same key', async (_name, route) => {
    const { hook, server, commit } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    server.on(`POST ${DOC}/patch`, route);
    act(() => result.current.patch(title('b')));
    await pass(100);
    expect(result.current).toMatchObject({ value: { title: 'b' }, isSaving: true });
    server.on(`POST ${DOC}/patch`, ({ body }) =>
      answer({ sequence: commit((body as { ops: PatchOp[] }).ops), rebased: false }, 201),
    );
    await pass(20_000);
    expect(result.current).toMatchObject({ value: { title: 'b' }, isSaving: false, error: null });
    const keys = server.sent(`POST ${DOC}/patch`).map((call) => call.headers.get('idempotency-key'));
    expect(keys.length).toBeGreaterThan(1);
    expect(new Set(keys).size).toBe(1);
  });

  it('tells a refusal, and shows the document without the patch', async () => {
    const { hook, server } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    server.on(`POST ${DOC}/patch`, () => refusal(422, 'invalid', { field: 'ops[0].path' }));
    act(() => result.current.patch(title('b')));
    await pass(100);
    expect(result.current).toMatchObject({ value: { title: 'a' }, isSaving: false, error: { field: 'ops[0].path' } });
  });

  it('reads the document again after a gap, and shows the old one meanwhile', async () => {
    const { hook, log, server } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    const read = answer({ document: {}, sequence: 40, value: { title: 'new' }, digest: 'd' });
    server.on(`GET ${DOC}`, () => new Promise((resolve) => setTimeout(() => resolve(read), 80)));
    log.events.push(event(41));
    log.open?.send('gap', { first: 41 });
    await pass(50);
    expect(result.current.value).toEqual({ title: 'a', items: [] });
    await pass(100);
    expect(result.current).toMatchObject({ value: { title: 'new' }, sequence: 40 });
  });

  it('reads the document again if a patch of the log does not fit', async () => {
    const { hook, log, server, value } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    const ops = [{ op: 'remove', path: '/nothing/there' }];
    log.append({ type: 'state.patch', metadata: { document: { kind: 'scratch', id: 'plan' }, ops } });
    await pass(100);
    expect(server.sent(`GET ${DOC}`).length).toBe(2);
    expect(result.current.value).toEqual(value());
  });

  it('leaves other documents and events alone', async () => {
    const { hook, log } = shared();
    const { result } = hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(50);
    for (const metadata of [
      { document: { kind: 'scratch', id: 'other' }, ops: title('x') },
      { document: { kind: 'view', id: 'plan' }, ops: title('x') },
      { document: 'plan', ops: title('x') },
      { document: { kind: 'scratch', id: 'plan' }, ops: 'x' },
      null,
    ]) {
      log.append({ type: 'state.patch', metadata });
    }
    await pass(100);
    expect(result.current.value).toEqual({ title: 'a', items: [] });
  });

  it('says why where the session cannot be followed', async () => {
    const page = setUp();
    const { result } = page.hook(() => useSessionDocument('s', 'scratch', 'plan'));
    await pass(100);
    expect(result.current).toMatchObject({ isLoading: false, error: { status: 404 }, phase: 'ended' });
  });
});

describe('usePresence', () => {
  const PRESENCE = '/api/sessions/s/presence';
  function room() {
    const page = setUp();
    const log = fakeLog(page.server);
    page.server.on(`PUT ${PRESENCE}`, () => answer({ count: 1, present: [] }));
    page.server.on(`DELETE ${PRESENCE}`, () => answer(undefined, 204));
    return { ...page, log, puts: () => page.server.sent(`PUT ${PRESENCE}`) };
  }

  it('is there while the component is, renews itself, and leaves', async () => {
    const { hook, log, puts, server } = room();
    const shown = hook(() => usePresence('s'));
    await pass(50);
    expect(puts().length).toBe(1);
    expect(log.open?.call.query.get('presence')).toBe('true');
    await pass(60_000);
    expect(puts().length).toBe(6);
    shown.unmount();
    await pass();
    expect(server.sent(`DELETE ${PRESENCE}`)[0]?.keepalive).toBe(true);
    await pass(60_000);
    expect(puts().length).toBe(6);
  });

  it('shows who is there', async () => {
    const { hook, log } = room();
    const { result } = hook(() => usePresence('s', { isSilent: true }));
    await pass(50);
    const ann = { user_id: 'ann', state: { field: 'title' }, since: '2026-01-31T09:30:00Z' };
    log.open?.send('presence', { count: 1, present: [ann] });
    await pass();
    expect(result.current).toEqual({ count: 1, present: [ann] });
    log.open?.send('presence', { count: 3 });
    await pass();
    expect(result.current).toEqual({ count: 3, present: [] });
  });

  it('tells changes at most once a second, and the last one always', async () => {
    const { hookWith, puts } = room();
    const { rerender } = hookWith(({ at }: { at: number }) => usePresence('s', { state: { at } }), { at: 0 });
    await pass(50);
    for (let at = 1; at <= 20; at += 1) {
      rerender({ at });
      await pass(100);
    }
    await pass(2_000);
    expect(puts().length).toBeLessThanOrEqual(5);
    expect(puts().at(-1)?.body).toEqual({ state: { at: 20 } });
  });

  it('tries again after 429, and stays silent after 403', async () => {
    const { hook, puts, server } = room();
    server.on(`PUT ${PRESENCE}`, () => refusal(429, 'rate_limited', {}, { 'retry-after': '2' }));
    hook(() => usePresence('s'));
    await pass(50);
    server.on(`PUT ${PRESENCE}`, () => refusal(403, 'denied'));
    await pass(2_100);
    expect(puts().length).toBe(2);
    await pass(60_000);
    expect(puts().length).toBe(2);
  });

  it('goes away with a hidden tab, and comes back', async () => {
    const { hook, puts, server } = room();
    hook(() => usePresence('s'));
    await pass(2_000);
    setVisibility('hidden');
    await pass(60_000);
    expect(server.sent(`DELETE ${PRESENCE}`).length).toBe(1);
    expect(puts().length).toBe(1);
    setVisibility('visible');
    await pass(50);
    expect(puts().length).toBe(2);
  });

  it.each([undefined, null, 7, [], { present: 'all' }, { present: [null, { user_id: 7 }] }])(
    'reads %j as nobody',
    (data) => {
      expect(readPresence(data)).toEqual({ present: [], count: 0 });
    },
  );
});
