import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createSederuntClient } from '../src/client/client.js';
import type { SederuntRefusal } from '../src/client/refusal.js';
import { advanceLog, appendRead, type EventLog, prependPage } from '../src/stream/eventLog.js';
import { followStream, type StreamPhase } from '../src/stream/follow.js';
import { readHint } from '../src/stream/hintFeed.js';
import { createRefetchGate } from '../src/stream/refetchGate.js';
import { addPiece, NO_REPLY } from '../src/stream/replyText.js';
import { setVisibility } from './render.js';
import { event, FakeStream, fakeFetch, refusal } from './server.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function follow() {
  const server = fakeFetch();
  const streams: FakeStream[] = [];
  const phases: StreamPhase[] = [];
  const taken: string[] = [];
  let last: string | undefined;
  let lastRefusal: SederuntRefusal | undefined;
  server.on('GET /x', (call, signal) => {
    const stream = new FakeStream(call, signal);
    streams.push(stream);
    return stream.response;
  });
  const stop = followStream({
    client: createSederuntClient({ fetch: server.fetch }),
    path: () => '/x',
    lastId: () => last,
    onMessage: ({ id, event: name, data }) => {
      last = id ?? last;
      taken.push(`${name}:${data}`);
    },
    onPhase: (phase, refused) => {
      phases.push(phase);
      lastRefusal = refused;
    },
    random: () => 1,
  });
  return { server, streams, phases, taken, stop, refusalTold: () => lastRefusal };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe('a stream that comes back', () => {
  it('resumes from the last id, and waits longer each time, up to 1.5 s', async () => {
    const { server, streams, phases, taken, stop } = follow();
    await pass(0);
    streams[0]?.write('id: 7\ndata: a\n\n');
    await pass(0);
    server.on('GET /x', () => refusal(503, 'unavailable'));
    streams[0]?.breakOff();
    const waits: number[] = [];
    for (let tries = 2; tries <= 6; tries += 1) {
      let waited = 0;
      while (server.calls.length < tries && waited < 5_000) {
        await pass(10);
        waited += 10;
      }
      waits.push(waited);
    }
    expect(waits).toEqual([250, 500, 1_000, 1_500, 1_500]);
    expect(taken).toEqual(['message:a']);
    expect(phases.slice(0, 3)).toEqual(['connecting', 'live', 'reconnecting']);
    expect(server.calls[0]?.headers.get('last-event-id')).toBeNull();
    expect(server.calls.slice(1).map((call) => call.headers.get('last-event-id'))).toEqual(Array(5).fill('7'));
    stop();
  });

  it('waits as long as the server asks', async () => {
    const { server, streams, stop } = follow();
    await pass(0);
    server.on('GET /x', () => refusal(429, 'rate_limited', {}, { 'retry-after': '8' }));
    streams[0]?.end();
    await pass(300);
    expect(server.calls.length).toBe(2);
    await pass(7_900);
    expect(server.calls.length).toBe(2);
    await pass(200);
    expect(server.calls.length).toBe(3);
    stop();
  });

  it('comes back at once when the network or the reader is back', async () => {
    const { server, streams, stop } = follow();
    await pass(0);
    setVisibility('hidden');
    for (const [how, wake] of [
      ['online', () => window.dispatchEvent(new Event('online'))],
      ['visible', () => setVisibility('visible')],
    ] as const) {
      const before = server.calls.length;
      streams.at(-1)?.end();
      await pass(0);
      expect(server.calls.length, how).toBe(before);
      wake();
      await pass(0);
      expect(server.calls.length, how).toBe(before + 1);
    }
    stop();
  });

  it('takes 40 seconds without a byte for a dead connection, and a heartbeat for life', async () => {
    const { streams, phases, stop } = follow();
    await pass(0);
    await pass(30_000);
    streams[0]?.write(':\n\n');
    await pass(39_000);
    expect(phases).toEqual(['connecting', 'live']);
    await pass(1_500);
    expect(phases).toContain('reconnecting');
    expect(streams.length).toBe(2);
    stop();
  });

  it.each([401, 403, 404, 422])('ends for good on %d, with its reason', async (status) => {
    const { server, streams, phases, refusalTold } = follow();
    await pass(0);
    server.on('GET /x', () => refusal(status, 'no'));
    streams[0]?.end();
    await pass(60_000);
    expect(phases.at(-1)).toBe('ended');
    expect(refusalTold()?.status).toBe(status);
    expect(server.calls.length).toBe(2);
  });

  it('reads a message that comes in pieces, within a character too', async () => {
    const { streams, taken, stop } = follow();
    await pass(0);
    const bytes = new TextEncoder().encode('data: "größe 🚢"\n\n');
    for (const byte of bytes) streams[0]?.bytes(Uint8Array.of(byte));
    await pass(0);
    expect(taken).toEqual(['message:"größe 🚢"']);
    stop();
  });

  it('says nothing after it was stopped', async () => {
    const { server, streams, phases, stop } = follow();
    await pass(0);
    stop();
    await pass(60_000);
    expect(streams[0]?.isOpen).toBe(false);
    expect(phases).toEqual(['connecting', 'live']);
    expect(server.calls.length).toBe(1);
  });
});

describe('an unfinished reply', () => {
  const text = (...pieces: [string, number][]) =>
    pieces.reduce((reply, [piece, offset]) => addPiece(reply, { text: piece, offset }), NO_REPLY).text;

  it.each([
    [
      'grows',
      [
        ['Rain ', 0],
        ['until five', 5],
      ],
      'Rain until five',
    ],
    [
      'is replaced from the beginning',
      [
        ['Rain', 0],
        ['Snow', 0],
      ],
      'Snow',
    ],
    [
      'is replaced from the middle',
      [
        ['Rain until', 0],
        ['for ever', 5],
      ],
      'Rain for ever',
    ],
    [
      'counts bytes, not characters',
      [
        ['größe ', 0],
        ['x', 8],
      ],
      'größe x',
    ],
    [
      'counts bytes of emoji',
      [
        ['🚢🚢', 0],
        ['!', 4],
      ],
      '🚢!',
    ],
    ['joins late', [['five', 11]], 'five'],
    [
      'goes on where it joined late',
      [
        ['five', 11],
        [' o’clock', 15],
      ],
      'five o’clock',
    ],
    [
      'starts anew after a jump',
      [
        ['Rain', 0],
        ['later', 90],
      ],
      'later',
    ],
  ] as [string, [string, number][], string][])('%s', (_name, pieces, whole) => {
    expect(text(...pieces)).toBe(whole);
  });
});

describe('the log of a page', () => {
  const log = (from: number, to: number, earlierBefore: number | null = from): EventLog => ({
    events: Array.from({ length: to - from + 1 }, (_, at) => event(from + at)),
    lastSequence: to,
    earlierBefore,
  });
  const sequences = (from: EventLog | 'behind') => (from === 'behind' ? from : from.events.map((one) => one.sequence));
  const all = () => true;

  it('takes live events once and in order', () => {
    const known = log(5, 7);
    expect(sequences(advanceLog(known, [event(6), event(7), event(8), event(9)], all))).toEqual([5, 6, 7, 8, 9]);
    expect(advanceLog(known, [event(6), event(7)], all)).toBe(known);
    expect(advanceLog(known, [], all)).toBe(known);
  });

  it('says when live events do not follow', () => {
    expect(advanceLog(log(5, 7), [event(9)], all)).toBe('behind');
  });

  it('moves its end past events that its filter leaves out', () => {
    const advanced = advanceLog(log(5, 7), [event(8)], () => false) as EventLog;
    expect(advanced.lastSequence).toBe(8);
    expect(sequences(advanced)).toEqual([5, 6, 7]);
  });

  it('puts earlier events in front, once', () => {
    const page = { events: [event(4), event(3)], earlierBefore: 3 };
    const longer = prependPage(log(5, 6), 5, page);
    expect(sequences(longer)).toEqual([3, 4, 5, 6]);
    expect(prependPage(longer, 5, page)).toBe(longer);
  });

  it('catches up by a read that overlaps', () => {
    expect(sequences(appendRead(log(5, 7), [event(7), event(8)], 8))).toEqual([5, 6, 7, 8]);
    const known = log(5, 7);
    expect(appendRead(known, [], 7)).toBe(known);
  });
});

describe('hints', () => {
  it.each([
    [
      'sessions',
      '{"sessions":[{"id":"a","status":"idle"},{"id":7},null]}',
      { topic: 'sessions', sessions: [{ id: 'a', status: 'idle' }] },
    ],
    ['sessions', '{}', { topic: 'sessions', sessions: [] }],
    ['counts', '{"needs_me":4}', { topic: 'counts', data: { needs_me: 4 } }],
    ['approvals', '{}', { topic: 'approvals', data: {} }],
    ['reset', '', { topic: 'reset' }],
    ['counts', 'no JSON', null],
    ['counts', '[]', null],
    ['weather', '{}', null],
  ])('reads %s with %s', (name, data, hint) => {
    expect(readHint(name, data)).toEqual(hint);
  });

  it('let a list be read at most once a second, and not while the tab is hidden', async () => {
    const refetch = vi.fn();
    const gate = createRefetchGate(refetch);
    for (let hint = 0; hint < 50; hint += 1) gate.ask();
    expect(refetch).toHaveBeenCalledTimes(1);
    await pass(1_000);
    expect(refetch).toHaveBeenCalledTimes(2);
    await pass(5_000);
    expect(refetch).toHaveBeenCalledTimes(2);
    setVisibility('hidden');
    gate.ask();
    await pass(5_000);
    expect(refetch).toHaveBeenCalledTimes(2);
    setVisibility('visible');
    expect(refetch).toHaveBeenCalledTimes(3);
    gate.close();
  });
});
