import { act, renderHook } from '@testing-library/react';
import { StrictMode } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { useSessionEvents } from '../src/hooks/useSessionEvents.js';
import { useSessionRealtime } from '../src/hooks/useSessionRealtime.js';
import { sessionEventsQueryKey } from '../src/vocabulary/queryKeys.js';
import { pass, setUp, setVisibility } from './render.js';
import { answer, event, fakeLog, refusal } from './server.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function logOf(count: number, props: Parameters<typeof setUp>[0] = {}) {
  const page = setUp(props);
  const log = fakeLog(page.server);
  for (let at = 0; at < count; at += 1) log.append();
  return { ...page, log };
}

const sequences = (events: readonly { sequence: number }[]) => events.map((one) => one.sequence);
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);

function useBoth(options: Parameters<typeof useSessionEvents>[1] = {}) {
  return { ...useSessionEvents('s', options), live: useSessionRealtime('s') };
}

describe('useSessionEvents', () => {
  it('opens with the newest hundred, oldest first, and loads earlier ones', async () => {
    const { hook, server } = logOf(250);
    const { result } = hook(() => useSessionEvents('s'));
    expect(result.current.isLoading).toBe(true);
    await pass();
    expect(sequences(result.current.events)).toEqual(range(151, 250));
    expect(result.current.hasMore).toBe(true);
    expect(Object.fromEntries(server.calls[0]?.query ?? [])).toEqual({ order: 'desc', limit: '100' });
    act(() => void result.current.fetchNextPage());
    expect(result.current.isFetchingNextPage).toBe(true);
    await pass();
    expect(sequences(result.current.events)).toEqual(range(51, 250));
    await act(() => result.current.fetchNextPage());
    expect(sequences(result.current.events)).toEqual(range(1, 250));
    expect(result.current.hasMore).toBe(false);
    await act(() => result.current.fetchNextPage());
    expect(server.calls.length).toBe(3);
  });

  it('asks once for earlier events, however often the button is pressed', async () => {
    const { hook, server } = logOf(250);
    const { result } = hook(() => useSessionEvents('s'));
    await pass();
    act(() => {
      for (let press = 0; press < 5; press += 1) void result.current.fetchNextPage();
    });
    await pass();
    expect(server.calls.length).toBe(2);
    expect(sequences(result.current.events)).toEqual(range(51, 250));
  });

  it('is stale after 15 seconds, and then reads only what came since', async () => {
    const { hook, log, server } = logOf(120);
    const first = hook(() => useSessionEvents('s'));
    await pass();
    await act(() => first.result.current.fetchNextPage());
    first.unmount();
    log.append();
    await pass(14_000);
    const second = hook(() => useSessionEvents('s'));
    await pass();
    expect(server.calls.length).toBe(2);
    second.unmount();
    await pass(1_500);
    const third = hook(() => useSessionEvents('s'));
    await pass();
    expect(Object.fromEntries(server.calls[2]?.query ?? [])).toEqual({
      order: 'asc',
      limit: '1000',
      after_sequence: '120',
    });
    expect(sequences(third.result.current.events)).toEqual(range(1, 121));
  });

  it('asks for its types, and looks at five pages without any before it stops', async () => {
    const { hook, server } = setUp();
    let asked = 0;
    server.on('GET /api/sessions/s/events', () => {
      asked += 1;
      const found = asked === 8 ? [event(2, { type: 'human.marker' })] : [];
      return answer({ events: found, has_more: asked < 8, last_sequence: 90_000, next_after: 90_000 - asked * 10_000 });
    });
    const { result } = hook(() => useSessionEvents('s', { eventTypes: ['human.marker', 'agent.message'] }));
    await pass();
    expect(asked).toBe(5);
    expect(server.calls[0]?.query.get('types')).toBe('human.marker,agent.message');
    expect(server.calls[4]?.query.get('before_sequence')).toBe('50000');
    expect(result.current).toMatchObject({ events: [], hasMore: true, isLoading: false });
    await act(() => result.current.fetchNextPage());
    expect(asked).toBe(8);
    expect(sequences(result.current.events)).toEqual([2]);
    expect(result.current.hasMore).toBe(false);
  });

  it('does not ask for ever where the server says more and does not move', async () => {
    const { hook, server } = setUp();
    server.on('GET /api/sessions/s/events', () =>
      answer({ events: [], has_more: true, last_sequence: 9, next_after: 5 }),
    );
    const { result } = hook(() => useSessionEvents('s', { eventTypes: ['a.b'] }));
    await pass();
    expect(result.current.hasMore).toBe(false);
    expect(server.calls.length).toBe(2);
  });

  it('tells why it could not read, and keeps what it has if earlier events cannot be read', async () => {
    const { hook, log, server } = logOf(150);
    const { result } = hook(() => useSessionEvents('s'));
    await pass();
    server.on('GET /api/sessions/s/events', () => refusal(404, 'not_found'));
    await act(() => result.current.fetchNextPage());
    expect(result.current.error).toMatchObject({ code: 'not_found' });
    expect(sequences(result.current.events)).toEqual(range(51, 150));
    expect(log.streams.length).toBe(0);
  });

  it('leaves out rows that are no events', async () => {
    const { hook, server } = setUp();
    server.on('GET /api/sessions/s/events', () =>
      answer({ events: [event(2), null, { type: 7 }, event(1)], has_more: false, last_sequence: 2, next_after: 1 }),
    );
    const { result } = hook(() => useSessionEvents('s'));
    await pass();
    expect(sequences(result.current.events)).toEqual([1, 2]);
  });
});

describe('useSessionRealtime', () => {
  it('streams from the end of what was read, and adds what comes', async () => {
    const { hook, log } = logOf(150);
    const { result } = hook(() => useBoth());
    await pass();
    expect(log.streams.map((stream) => stream.call.query.get('after'))).toEqual(['150']);
    expect(result.current.live).toMatchObject({ phase: 'live', delta: null, isReady: true });
    for (let at = 0; at < 20; at += 1) log.append();
    await pass();
    expect(sequences(result.current.events)).toEqual(range(51, 170));
  });

  it('never streams from the beginning, without a list of events too', async () => {
    const { hook, log, server } = logOf(150);
    const { result } = hook(() => useSessionRealtime('s'));
    await pass(50);
    expect(log.streams[0]?.call.query.get('after')).toBe('150');
    expect(server.calls[0]?.query.get('limit')).toBe('1');
    expect(result.current.phase).toBe('live');
  });

  it('tells React once a frame about many events', async () => {
    const { hook, log, queries } = logOf(10);
    const { result } = hook(() => useBoth());
    await pass(100);
    let told = 0;
    queries.getQueryCache().subscribe(({ type }) => {
      if (type === 'updated') told += 1;
    });
    for (let at = 0; at < 500; at += 1) log.append();
    await pass(100);
    expect(result.current.events.length).toBe(510);
    expect(told).toBeLessThan(5);
  });

  it('loses and doubles nothing over breaks at any place, under writes', async () => {
    const { hook, log } = logOf(40);
    const { result } = hook(() => useBoth());
    await pass();
    for (let round = 0; round < 30; round += 1) {
      for (let at = 0; at < round % 7; at += 1) log.append();
      if (round % 3 === 0) log.open?.breakOff();
      if (round % 5 === 0) log.open?.end();
      log.append();
      await pass(round % 2 === 0 ? 10 : 700);
    }
    await pass(3_000);
    expect(sequences(result.current.events)).toEqual(range(1, log.events.length));
    expect(result.current.live.phase).toBe('live');
    expect(log.streams.length).toBeGreaterThan(5);
  });

  it('drops events that the server sends twice', async () => {
    const { hook, log } = logOf(5);
    const { result } = hook(() => useBoth());
    await pass();
    const one = log.append();
    log.open?.log(one);
    log.open?.log(event(3));
    await pass();
    expect(sequences(result.current.events)).toEqual(range(1, 6));
  });

  it('reads what is missing where the stream jumps', async () => {
    const { hook, log } = logOf(5);
    const { result } = hook(() => useBoth());
    await pass();
    log.append();
    log.events.push(event(7), event(8));
    log.append();
    await pass(50);
    expect(sequences(result.current.events)).toEqual(range(1, 9));
    log.append();
    await pass(50);
    expect(sequences(result.current.events)).toEqual(range(1, 10));
  });

  it('keeps a filtered list at the end of the log too', async () => {
    const { hook, log, server } = logOf(5);
    const { result } = hook(() => useBoth({ eventTypes: ['agent.message'] }));
    await pass();
    log.append();
    log.append({ type: 'agent.message' });
    log.append();
    await pass();
    expect(sequences(result.current.events)).toEqual([7]);
    const reads = server.sent('GET /api/sessions/s/events').length;
    await pass(10_000);
    expect(server.sent('GET /api/sessions/s/events').length).toBe(reads);
  });

  it('loads earlier events while new ones arrive', async () => {
    const { hook, log } = logOf(1_100);
    const { result } = hook(() => useBoth());
    await pass();
    for (let round = 0; round < 10; round += 1) {
      act(() => void result.current.fetchNextPage());
      log.append();
      await pass();
      log.append();
      await pass();
    }
    expect(sequences(result.current.events)).toEqual(range(1, 1_120));
  });

  it('shows the text of a reply until its message is in the log', async () => {
    const { hook, log } = logOf(2);
    const { result } = hook(() => useBoth());
    await pass();
    log.open?.send('delta', { text: 'Größe', offset: 0 });
    log.open?.send('delta', { text: ' ist', offset: 7 });
    await pass();
    expect(result.current.live.delta).toBe('Größe ist');
    log.append({ type: 'agent.message' });
    await pass();
    expect(result.current.live.delta).toBeNull();
    log.open?.send('delta', { text: 'again', offset: 0 });
    await pass();
    log.append({ type: 'session.status_change', metadata: { from: 'running', to: 'failed' } });
    await pass();
    expect(result.current.live.delta).toBeNull();
  });

  it('shows the half-written reply again after a break', async () => {
    const { hook, log } = logOf(2);
    const { result } = hook(() => useBoth());
    await pass();
    log.open?.send('delta', { text: 'half', offset: 0 });
    await pass();
    log.open?.breakOff();
    await pass(50);
    expect(result.current.live).toMatchObject({ phase: 'reconnecting', delta: null });
    await pass(300);
    log.open?.send('delta', { text: 'half of it', offset: 0 });
    await pass();
    expect(result.current.live.delta).toBe('half of it');
  });

  it('reads the log anew after a gap', async () => {
    const { hook, log } = logOf(5);
    const { result } = hook(() => useBoth());
    await pass();
    log.events.splice(0);
    log.events.push(event(20), event(21));
    log.open?.send('gap', { first: 20 });
    await pass(50);
    expect(sequences(result.current.events)).toEqual([20, 21]);
    log.append();
    await pass(50);
    expect(sequences(result.current.events)).toEqual([20, 21, 22]);
  });

  it('survives messages that it cannot read', async () => {
    const { hook, log } = logOf(2);
    const { result } = hook(() => useBoth());
    await pass();
    log.open?.write('id: 3\ndata: {"broken\n\n');
    log.open?.send('delta', { text: 7 });
    log.open?.send('gap', {});
    log.open?.send('weather', { rain: true });
    log.open?.write('data: 17\n\n');
    log.append({ type: 'never.seen', content: 'no array', metadata: [] });
    await pass();
    expect(sequences(result.current.events)).toEqual([1, 2, 3]);
    expect(result.current.live).toMatchObject({ phase: 'live', delta: null });
  });

  it('shares one stream among all components that show the session', async () => {
    const { log, show } = logOf(3);
    const One = () => {
      useBoth();
      return null;
    };
    const shown = show(
      <>
        <One />
        <One />
        <One />
      </>,
    );
    await pass(50);
    expect(log.streams.length).toBe(1);
    shown.unmount();
    await pass(50);
    expect(log.streams[0]?.isOpen).toBe(false);
  });

  it('opens one stream in strict mode too', async () => {
    const { log, wrapper: Wrapper } = logOf(3);
    renderHook(() => useBoth(), {
      wrapper: ({ children }) => (
        <StrictMode>
          <Wrapper>{children}</Wrapper>
        </StrictMode>
      ),
    });
    await pass(50);
    expect(log.streams.filter((stream) => stream.isOpen).length).toBe(1);
  });

  it('closes five seconds after its tab was hidden, and resumes without a gap', async () => {
    const { hook, log } = logOf(5);
    const { result } = hook(() => useBoth());
    await pass();
    setVisibility('hidden');
    await pass(4_900);
    expect(log.open).toBeDefined();
    await pass(500);
    expect(log.open).toBeUndefined();
    expect(result.current.live.phase).toBe('paused');
    for (let at = 0; at < 10; at += 1) log.append();
    await pass(60_000);
    expect(log.streams.length).toBe(1);
    setVisibility('visible');
    await pass(50);
    expect(result.current.live.phase).toBe('live');
    expect(sequences(result.current.events)).toEqual(range(1, 15));
  });

  it('says why it ended, and does not come back by itself', async () => {
    const { hook, log } = logOf(5);
    const { result } = hook(() => useBoth());
    await pass();
    log.refuse = () => refusal(404, 'not_found');
    log.open?.end();
    await pass(30_000);
    expect(result.current.live).toMatchObject({ phase: 'ended', refusal: { status: 404 } });
    expect(sequences(result.current.events)).toEqual(range(1, 5));
  });

  it('brings a list that was read earlier up to date', async () => {
    const { hook, log, queries } = logOf(5);
    const first = hook(() => useSessionEvents('s'));
    await pass();
    first.unmount();
    log.append();
    log.append();
    const { result } = hook(() => useBoth());
    await pass(50);
    expect(sequences(result.current.events)).toEqual(range(1, 7));
    await act(() => queries.invalidateQueries({ queryKey: sessionEventsQueryKey('s') }));
    expect(sequences(result.current.events)).toEqual(range(1, 7));
  });

  it('follows nothing where there is no session', async () => {
    const { hook, server } = setUp();
    const { result } = hook(() => useSessionRealtime(null));
    await pass(1_000);
    expect(result.current.phase).toBe('connecting');
    expect(server.calls).toEqual([]);
  });
});
