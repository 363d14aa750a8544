import { act, fireEvent, screen } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ActivityRecorderMount } from '../src/components/ActivityRecorderMount.js';
import { useActiveHumanSession } from '../src/hooks/useActiveHumanSession.js';
import { useActivityRecorder } from '../src/hooks/useActivityRecorder.js';
import { activeHumanSessionQueryKey } from '../src/vocabulary/queryKeys.js';
import { pass, setUp, setVisibility } from './render.js';
import { answer, FakeStream, refusal } from './server.js';

const ACME = '019a9b3e-0000-7000-8000-00000000000a';

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse('2026-01-31T09:30:00Z') });
});
afterEach(() => {
  vi.useRealTimers();
  history.replaceState(null, '', '/');
});

const EVENTS = 'POST /api/sessions/h/events';

function recorder(pathname: string | undefined = '/chat') {
  const page = setUp();
  page.server.on(EVENTS, () => answer({ events: [], last_sequence: 1, dropped: 0 }, 201));
  let path = pathname;
  const shown = page.hookWith(({ id }: { id: string | null }) => useActivityRecorder(id), { id: 'h' as string | null });
  return {
    ...page,
    shown,
    go(to: string) {
      path = to;
      act(() => history.pushState(null, '', path));
    },
    batches: () =>
      page.server.sent(EVENTS).map((call) => call.body as { events: { type: string; metadata: object }[] }),
    told: () =>
      page.server
        .sent(EVENTS)
        .flatMap((call) => (call.body as { events: { type: string; metadata: { pathname: string } }[] }).events)
        .map(({ type, metadata }) => `${type} ${metadata.pathname}`),
  };
}

describe('the recorder', () => {
  it('sends visits after five seconds, in one call', async () => {
    const { go, told, batches, server } = recorder();
    go('/chat');
    go('/tasks?q=1#x');
    await pass(4_900);
    expect(server.calls.length).toBe(0);
    await pass(200);
    expect(told()).toEqual(['human.navigate /', 'human.navigate /chat', 'human.navigate /tasks']);
    expect(server.calls.length).toBe(1);
    expect(batches()[0]?.events[0]).toEqual({
      type: 'human.navigate',
      metadata: { pathname: '/', at: '2026-01-31T09:30:00.000Z' },
    });
    await pass(30_000);
    expect(server.calls.length).toBe(1);
  });

  it('tells each entity once in a session, and each navigation once', async () => {
    const { go, told, batches } = recorder();
    go(`/entities/${ACME}`);
    go(`/entities/${ACME}?tab=runs`);
    go(`/t/acme/companies/${ACME.toUpperCase()}`);
    go('/entities/acme-corp');
    await pass(5_000);
    expect(told()).toEqual([
      'human.navigate /',
      `human.navigate /entities/${ACME}`,
      `human.entity_view /entities/${ACME}`,
      `human.navigate /t/acme/companies/${ACME.toUpperCase()}`,
      'human.navigate /entities/acme-corp',
    ]);
    expect(batches()[0]?.events[2]?.metadata).toEqual({
      entity_id: ACME,
      entity_type: 'entity',
      pathname: `/entities/${ACME}`,
      at: '2026-01-31T09:30:00.000Z',
    });
  });

  it('tells an entity again in another session', async () => {
    const { go, told, shown, server } = recorder();
    server.on('POST /api/sessions/h2/events', () => answer({ events: [], last_sequence: 1 }, 201));
    go(`/entities/${ACME}`);
    shown.rerender({ id: 'h2' });
    await pass(5_000);
    expect(told()).toContain(`human.entity_view /entities/${ACME}`);
    const second = server.sent('POST /api/sessions/h2/events')[0]?.body as { events: { type: string }[] };
    expect(second.events.map((one) => one.type)).toEqual(['human.navigate', 'human.entity_view']);
  });

  it('sends at once, by a call that outlives the page, when the tab is hidden', async () => {
    const { go, told, server } = recorder();
    go('/chat');
    setVisibility('hidden');
    await pass(0);
    expect(told()).toEqual(['human.navigate /', 'human.navigate /chat']);
    expect(server.calls[0]?.keepalive).toBe(true);
    await pass(10_000);
    expect(server.calls.length).toBe(1);
  });

  it('sends a batch that is under way again when the tab is hidden, under the same key', async () => {
    const { go, server } = recorder();
    server.on(EVENTS, () => new Promise(() => undefined));
    go('/chat');
    await pass(5_000);
    setVisibility('hidden');
    await pass(0);
    expect(server.calls.map((call) => call.keepalive)).toEqual([false, true]);
    const keys = server.calls.map((call) => call.headers.get('idempotency-key'));
    expect(keys[0]).toBe(keys[1]);
    expect(server.calls[0]?.body).toEqual(server.calls[1]?.body);
  });

  it.each([
    ['no answer', () => Promise.reject(new TypeError('network'))],
    ['401', () => refusal(401, 'unauthenticated')],
    ['429', () => refusal(429, 'rate_limited')],
    ['503', () => refusal(503, 'unavailable')],
    ['500', () => refusal(500, 'internal')],
  ])('keeps visits on %s, and sends them once more under the same key', async (_name, route) => {
    const { go, told, server } = recorder();
    server.on(EVENTS, route);
    go('/chat');
    await pass(5_000);
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    go('/tasks');
    await pass(5_000);
    expect(told()).toEqual([
      'human.navigate /',
      'human.navigate /chat',
      'human.navigate /',
      'human.navigate /chat',
      'human.navigate /tasks',
    ]);
    const keys = server.calls.map((call) => call.headers.get('idempotency-key'));
    expect(keys[0]).toBe(keys[1]);
    expect(keys[2]).not.toBe(keys[1]);
  });

  it.each([400, 403, 404, 409, 413, 422])('drops visits on %d', async (status) => {
    const { go, told, server } = recorder();
    server.on(EVENTS, () => refusal(status, 'no'));
    await pass(5_000);
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    go('/tasks');
    await pass(5_000);
    expect(told()).toEqual(['human.navigate /', 'human.navigate /tasks']);
  });

  it('sends at most a hundred events at once', async () => {
    const { go, batches } = recorder();
    for (let page = 0; page < 249; page += 1) go(`/page/${page}`);
    await pass(5_000);
    expect(batches().map(({ events }) => events.length)).toEqual([100, 100, 50]);
  });

  it('forgets the oldest visits beyond a thousand while the server is away', async () => {
    const { go, server, told } = recorder();
    server.on(EVENTS, () => refusal(503, 'unavailable'));
    for (let page = 0; page < 1_500; page += 1) go(`/page/${page}`);
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    await pass(5_000);
    expect(told().length).toBe(1_000);
    expect(told().at(-1)).toBe('human.navigate /page/1499');
  });

  it('records no path of more than 512 characters, and none with control characters', async () => {
    const page = setUp({ pathname: `/${'a'.repeat(512)}` });
    page.server.on(EVENTS, () => answer({ events: [], last_sequence: 1 }, 201));
    page.hook(() => useActivityRecorder('h'));
    await pass(10_000);
    expect(page.server.calls).toEqual([]);
    const fits = setUp({ pathname: `/${'a'.repeat(511)}` });
    fits.server.on(EVENTS, () => answer({ events: [], last_sequence: 1 }, 201));
    fits.hook(() => useActivityRecorder('h'));
    const control = setUp({ pathname: '/a\u0007b' });
    control.hook(() => useActivityRecorder('h'));
    await pass(10_000);
    expect(fits.server.calls.length).toBe(1);
    expect(control.server.calls).toEqual([]);
  });

  it('records nothing without a session', async () => {
    const { shown, go, server } = recorder();
    shown.rerender({ id: null });
    await pass(0);
    const before = server.calls.length;
    go('/elsewhere');
    await pass(10_000);
    expect(server.calls.length).toBe(before);
  });

  it('takes the path of the provider, and leaves the history of the page as it was', async () => {
    const { pushState } = history;
    const page = setUp({ pathname: '/from-router' });
    page.server.on(EVENTS, () => answer({ events: [], last_sequence: 1 }, 201));
    const shown = page.hook(() => useActivityRecorder('h'));
    await pass(5_000);
    expect(page.server.calls[0]?.body).toMatchObject({ events: [{ metadata: { pathname: '/from-router' } }] });
    shown.unmount();
    expect(history.pushState).toBe(pushState);
  });
});

const ACTIVE = 'GET /api/sessions/human/active';
const task = (id: string) => ({ id, name: `Task ${id}` });
const work = (id: string, of: string) => ({
  session: { id, status: 'running', title: `Task ${of}`, task_id: of, started_at: '2026-01-31T09:18:00Z' },
  task: task(of),
});

function human() {
  const page = setUp();
  let now: object = { session: null };
  page.server.on(ACTIVE, () => answer(now));
  page.server.on('POST /api/sessions/human/start', ({ body }) => {
    const { task_id } = body as { task_id: string };
    now = work(`h-${task_id}`, task_id);
    return answer(now, 201);
  });
  page.server.on('POST /api/sessions/human/stop', () => {
    now = { session: null };
    return answer({ id: 'h', status: 'completed' });
  });
  return {
    ...page,
    set(to: object) {
      now = to;
    },
  };
}

describe('useActiveHumanSession', () => {
  it('starts, switches and stops, and shows each before the server has answered', async () => {
    const { hook, server } = human();
    const { result } = hook(() => useActiveHumanSession());
    await pass();
    expect(result.current.session).toBeNull();
    act(() => result.current.startMutation.mutate(task('a')));
    await pass(0);
    expect(result.current.session?.status).toBe('running');
    expect(result.current.task?.name).toBe('Task a');
    await pass();
    expect(result.current.session?.id).toBe('h-a');
    await act(() => result.current.switchMutation.mutateAsync(task('b')));
    await pass();
    expect(result.current.session?.id).toBe('h-b');
    act(() => result.current.stopMutation.mutate());
    await pass();
    expect(result.current.session).toBeNull();
    expect(server.sent('POST /api/sessions/human/stop')[0]?.body).toEqual({ session_id: 'h-b' });
    expect(server.sent('POST /api/sessions/human/start').map((call) => call.body)).toEqual([
      { task_id: 'a' },
      { task_id: 'b' },
    ]);
  });

  it('takes back what it showed if the server refuses', async () => {
    const { hook, server, set } = human();
    set(work('h', 'a'));
    const { result } = hook(() => useActiveHumanSession());
    await pass();
    server.on('POST /api/sessions/human/stop', () => refusal(503, 'unavailable'));
    act(() => result.current.stopMutation.mutate());
    await pass(0);
    await pass();
    expect(result.current.session?.id).toBe('h');
    expect(result.current.stopMutation.error).toMatchObject({ code: 'unavailable' });
    server.on('POST /api/sessions/human/start', () => refusal(409, 'task_not_active'));
    act(() => result.current.startMutation.mutate(task('b')));
    await pass();
    expect(result.current.task?.id).toBe('a');
  });

  it('has the key of the contract, is stale after 15 seconds, and is nothing where nobody is signed in', async () => {
    const { hook, server, queries } = human();
    const first = hook(() => useActiveHumanSession());
    await pass();
    expect(queries.getQueryData(['sessions', 'human', 'active'])).toEqual({ session: null });
    expect(activeHumanSessionQueryKey).toEqual(['sessions', 'human', 'active']);
    first.unmount();
    await pass(14_000);
    const second = hook(() => useActiveHumanSession());
    await pass();
    expect(server.sent(ACTIVE).length).toBe(1);
    second.unmount();
    server.on(ACTIVE, () => refusal(401, 'unauthenticated'));
    await pass(2_000);
    const third = hook(() => useActiveHumanSession());
    await pass();
    expect(server.sent(ACTIVE).length).toBe(2);
    expect(third.result.current).toMatchObject({ session: null, error: null });
  });

  it('records a marker: resolves on success, rejects otherwise, and reads nothing again', async () => {
    const { hook, server, set } = human();
    set(work('h', 'a'));
    const { result } = hook(() => useActiveHumanSession());
    await pass();
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    await act(() => result.current.recordMarkerAsync('wrote to Acme'));
    expect(server.sent(EVENTS)[0]?.body).toEqual({
      events: [{ type: 'human.marker', content: 'wrote to Acme', metadata: { at: expect.any(String) } }],
    });
    server.on(EVENTS, () => refusal(409, 'session_closed'));
    await expect(result.current.recordMarkerAsync('x')).rejects.toMatchObject({ code: 'session_closed' });
    await pass(1_000);
    expect(server.sent(ACTIVE).length).toBe(1);
  });

  it('rejects a marker without a session', async () => {
    const { hook } = human();
    const { result } = hook(() => useActiveHumanSession());
    await pass();
    await expect(result.current.recordMarkerAsync('x')).rejects.toMatchObject({ code: 'no_session' });
  });

  it('notices that another tab has ended the session', async () => {
    const { hook, server, set } = human();
    let stream: FakeStream | undefined;
    server.on('GET /api/stream', (call, signal) => {
      stream = new FakeStream(call, signal);
      return stream.response;
    });
    set(work('h', 'a'));
    const { result } = hook(() => useActiveHumanSession());
    await pass();
    set({ session: null });
    stream?.send(
      'sessions',
      { sessions: [{ id: 'h', status: 'completed', row_changed: true, deleted: false }] },
      'c.1',
    );
    await pass();
    expect(result.current.session).toBeNull();
  });
});

describe('the mount of the recorder', () => {
  const press = (more: object = {}) => fireEvent.keyDown(document.body, { key: 'm', ctrlKey: true, ...more });

  it('opens the marker by its key, saves by Enter, and records visits', async () => {
    const { show, server, set } = human();
    set(work('h', 'a'));
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    show(<ActivityRecorderMount />);
    await pass();
    press({ shiftKey: true });
    expect(screen.queryByRole('dialog')).toBeNull();
    press();
    const field = screen.getByRole('textbox', { name: 'Marker' });
    expect(document.activeElement).toBe(field);
    fireEvent.change(field, { target: { value: '  drafting outreach  ' } });
    fireEvent.submit(field);
    await pass();
    expect(screen.queryByRole('dialog')).toBeNull();
    expect(screen.getByText('Marked')).toBeDefined();
    expect(server.sent(EVENTS)[0]?.body).toMatchObject({ events: [{ content: 'drafting outreach' }] });
    await pass(5_000);
    expect(server.sent(EVENTS)[1]?.body).toMatchObject({ events: [{ type: 'human.navigate' }] });
  });

  it('keeps the text of a marker that was refused, and says why', async () => {
    const { show, server, set } = human();
    set(work('h', 'a'));
    server.on(EVENTS, () => refusal(401, 'unauthenticated'));
    show(<ActivityRecorderMount />);
    await pass();
    press();
    const field = screen.getByRole<HTMLInputElement>('textbox', { name: 'Marker' });
    fireEvent.change(field, { target: { value: 'drafting' } });
    fireEvent.submit(field);
    await pass();
    expect(field.value).toBe('drafting');
    expect(screen.getByRole('alert').textContent).toBe('refused: unauthenticated');
    server.on(EVENTS, () => answer({ events: [], last_sequence: 2 }, 201));
    fireEvent.submit(field);
    await pass();
    expect(server.sent(EVENTS).length).toBe(2);
    expect(screen.queryByRole('dialog')).toBeNull();
  });

  it('does nothing without a session', async () => {
    const { show, server } = human();
    show(<ActivityRecorderMount />);
    await pass();
    press();
    expect(screen.queryByRole('dialog')).toBeNull();
    await pass(10_000);
    expect(server.sent(EVENTS)).toEqual([]);
  });
});
