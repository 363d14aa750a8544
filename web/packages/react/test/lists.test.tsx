import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createSederuntClient } from '../src/client/client.js';
import { useEntitySessions } from '../src/hooks/useEntitySessions.js';
import { useWorkQueueCounts } from '../src/hooks/useWorkQueueCounts.js';
import { type Hint, HintFeed } from '../src/stream/hintFeed.js';
import { pass, setUp } from './render.js';
import { answer, FakeStream, fakeFetch, refusal } from './server.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function hintsOf(server: ReturnType<typeof fakeFetch>) {
  const streams: FakeStream[] = [];
  server.on('GET /api/stream', (call, signal) => {
    const stream = new FakeStream(call, signal);
    streams.push(stream);
    return stream.response;
  });
  return streams;
}

const SESSIONS = 'GET /api/entities/e/sessions';
const hint = (id: string, status: string, more: object = {}) => ({
  sessions: [{ id, status, last_sequence: 1, row_changed: true, deleted: false, ...more }],
});

describe('useEntitySessions', () => {
  function entity() {
    const page = setUp();
    let rows: object[] = [{ id: 'a', status: 'running' }];
    page.server.on(SESSIONS, () => answer({ items: rows, next_cursor: null }));
    return {
      ...page,
      streams: hintsOf(page.server),
      set(to: object[]) {
        rows = to;
      },
    };
  }

  it('lists, and is stale after ten seconds', async () => {
    const { hook, server } = entity();
    const first = hook(() => useEntitySessions('e', { includeChildren: true, limit: 5 }));
    await pass();
    expect(first.result.current.sessions.map((row) => row.id)).toEqual(['a']);
    expect(Object.fromEntries(server.sent(SESSIONS)[0]?.query ?? [])).toEqual({ include_children: 'true', limit: '5' });
    first.unmount();
    await pass(9_000);
    hook(() => useEntitySessions('e', { includeChildren: true, limit: 5 })).unmount();
    expect(server.sent(SESSIONS).length).toBe(1);
    await pass(1_100);
    hook(() => useEntitySessions('e', { includeChildren: true, limit: 5 }));
    await pass();
    expect(server.sent(SESSIONS).length).toBe(2);
  });

  it('is empty where nobody is signed in, and tells the handler', async () => {
    const onUnauthorized = vi.fn();
    const page = setUp({ onUnauthorized });
    page.server.on(SESSIONS, () => refusal(401, 'unauthenticated'));
    const { result } = page.hook(() => useEntitySessions('e'));
    await pass();
    expect(result.current).toMatchObject({ sessions: [], error: null, isLoading: false });
    expect(onUnauthorized).toHaveBeenCalled();
  });

  it('tells other refusals', async () => {
    const page = setUp();
    page.server.on(SESSIONS, () => refusal(404, 'not_found'));
    const { result } = page.hook(() => useEntitySessions('e'));
    await pass();
    expect(result.current.error).toMatchObject({ code: 'not_found' });
    expect(page.server.sent(SESSIONS).length).toBe(1);
  });

  it('shows the status of a hint at once, and reads the list at most once a second', async () => {
    const { hook, server, streams } = entity();
    const { result } = hook(() => useEntitySessions('e'));
    await pass();
    server.on(SESSIONS, () => new Promise(() => undefined));
    streams[0]?.send('sessions', hint('a', 'waiting_human'), 'c.1');
    await pass(10);
    expect(result.current.sessions[0]?.status).toBe('waiting_human');
    for (let at = 0; at < 40; at += 1) {
      streams[0]?.send('sessions', hint('a', 'running'), `c.${at + 2}`);
      await pass(100);
    }
    expect(server.sent(SESSIONS).length).toBeLessThanOrEqual(7);
    streams[0]?.send('sessions', hint('a', 'being_born'), 'c.98');
    await pass(10);
    expect(result.current.sessions[0]?.status).toBe('running');
    streams[0]?.send('sessions', hint('a', 'running', { deleted: true }), 'c.99');
    await pass(10);
    expect(result.current.sessions).toEqual([]);
  });
});

describe('useWorkQueueCounts', () => {
  const COUNTS = 'GET /api/today/work-queue-counts';
  it('counts in the time zone of the browser, and again when a hint says so', async () => {
    const page = setUp();
    const streams = hintsOf(page.server);
    let needs_me = 1;
    page.server.on(COUNTS, () => answer({ needs_me, running: 0, delegatable: 0, failed: 0, done_today: 0 }));
    const { result } = page.hook(() => useWorkQueueCounts({ timeZone: 'Europe/London' }));
    await pass();
    expect(result.current.counts?.needs_me).toBe(1);
    expect(page.server.sent(COUNTS)[0]?.query.get('tz')).toBe('Europe/London');
    needs_me = 4;
    streams[0]?.send('counts', {}, 'c.1');
    await pass();
    expect(result.current.counts?.needs_me).toBe(4);
    needs_me = 5;
    streams[0]?.send('reset', {}, 'c.2');
    await pass(1_100);
    expect(result.current.counts?.needs_me).toBe(5);
    await pass(600_000);
    expect(page.server.sent(COUNTS).length).toBe(3);
  });
});

describe('one stream of hints for all tabs', () => {
  /** Web Locks of one browser: the first to ask holds the lock until its work is done. */
  function fakeLocks() {
    const waiting: (() => void)[] = [];
    let isHeld = false;
    const next = () => {
      isHeld = false;
      waiting.shift()?.();
    };
    return {
      request: (_name: string, { signal }: { signal: AbortSignal }, work: () => Promise<void>) =>
        new Promise<void>((resolve, reject) => {
          const hold = () => {
            if (signal.aborted) {
              next();
              return;
            }
            isHeld = true;
            void work().then(() => {
              next();
              resolve();
            });
          };
          signal.addEventListener('abort', () => reject(new DOMException('given up', 'AbortError')));
          if (isHeld) waiting.push(hold);
          else hold();
        }),
    };
  }

  /** Channels of one browser: a message reaches all others of the name. */
  function fakeChannels() {
    const open = new Set<{ name: string; onmessage: ((message: { data: unknown }) => void) | null }>();
    return class {
      onmessage: ((message: { data: unknown }) => void) | null = null;
      name: string;
      constructor(name: string) {
        this.name = name;
        open.add(this);
      }
      postMessage(data: unknown) {
        for (const other of open) {
          if (other !== this && other.name === this.name) queueMicrotask(() => other.onmessage?.({ data }));
        }
      }
      close() {
        open.delete(this);
      }
    };
  }

  function browser() {
    vi.stubGlobal('navigator', { locks: fakeLocks() });
    vi.stubGlobal('BroadcastChannel', fakeChannels());
    const server = fakeFetch();
    const streams = hintsOf(server);
    const client = createSederuntClient({ fetch: server.fetch });
    const tab = (scope = 'ann') => {
      const feed = new HintFeed(client, scope);
      const heard: Hint[] = [];
      return { feed, heard, close: feed.hear((one) => heard.push(one)) };
    };
    return { streams, tab };
  }

  it('reads once and tells every tab', async () => {
    const { streams, tab } = browser();
    const tabs = Array.from({ length: 8 }, () => tab());
    await pass();
    expect(streams.length).toBe(1);
    streams[0]?.send('counts', { needs_me: 4 }, 'c.1');
    await pass();
    for (const { heard, feed } of tabs) {
      expect(heard).toEqual([{ topic: 'counts', data: { needs_me: 4 } }]);
      expect(feed.phase()).toBe('live');
    }
  });

  it('is taken over by another tab, from the last hint on', async () => {
    const { streams, tab } = browser();
    const [first, second, third] = [tab(), tab(), tab()];
    await pass();
    streams[0]?.send('counts', {}, 'c.7');
    await pass();
    first.close();
    await pass();
    expect(streams.map((stream) => stream.isOpen)).toEqual([false, true]);
    expect(streams[1]?.call.headers.get('last-event-id')).toBe('c.7');
    streams[1]?.send('approvals', {}, 'c.8');
    await pass();
    expect(second.heard.map((one) => one.topic)).toEqual(['counts', 'approvals']);
    expect(third.heard).toEqual(second.heard);
    second.close();
    third.close();
    await pass();
    expect(streams.some((stream) => stream.isOpen)).toBe(false);
  });

  it('is not shared with a tab of another person', async () => {
    const { streams, tab } = browser();
    const [ann, bob] = [tab('ann'), tab('bob')];
    await pass();
    streams[0]?.send('counts', {}, 'c.1');
    await pass();
    expect(ann.heard.length).toBe(1);
    expect(bob.heard.length).toBe(0);
  });

  it('is read by each visible tab where the browser has no locks', async () => {
    vi.stubGlobal('navigator', {});
    const server = fakeFetch();
    const streams = hintsOf(server);
    const feed = new HintFeed(createSederuntClient({ fetch: server.fetch }), '');
    const close = feed.hear(() => undefined);
    await pass();
    expect(streams.length).toBe(1);
    vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
    await pass();
    expect(streams[0]?.isOpen).toBe(false);
    expect(feed.phase()).toBe('paused');
    close();
  });
});
