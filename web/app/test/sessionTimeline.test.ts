import type { SessionEvent } from '@sederunt/react';
import { describe, expect, it } from 'vitest';
import { timelineBars } from '../src/pages/session/timelineBars.js';
import { timelineScale } from '../src/pages/session/timelineScale.js';

const BEGUN = Date.parse('2026-11-18T09:00:00Z');

function event(
  sequence: number,
  second: number | string,
  type: string,
  metadata: unknown = null,
  content: unknown = null,
) {
  const at = typeof second === 'string' ? second : new Date(BEGUN + second * 1000).toISOString();
  return { sequence, type, at, metadata, content } as SessionEvent;
}

const call = (sequence: number, second: number, id: string) =>
  event(sequence, second, 'agent.tool_call', { tool_call_id: id, tool_name: `tool-${id}` });
const result = (sequence: number, second: number, id: string, more = {}) =>
  event(sequence, second, 'agent.tool_result', { tool_call_id: id, ...more });
const status = (sequence: number, second: number, from: string, to: string) =>
  event(sequence, second, 'session.status_change', { from, to });

const told = (events: readonly SessionEvent[], now = BEGUN, isOver = true) =>
  timelineBars(events, now, isOver).map((bar) => [
    bar.kind,
    bar.label,
    (bar.start - BEGUN) / 1000,
    (bar.end - BEGUN) / 1000,
  ]);

describe('the bars of a timeline', () => {
  it('are the calls, the replies between them, and the waits for a person', () => {
    const events = [
      status(1, 0, 'pending', 'running'),
      call(2, 2, 'a'),
      result(3, 5, 'a'),
      event(4, 6, 'agent.message', null, [{ type: 'text', text: 'Done.\nMore' }]),
      status(5, 7, 'running', 'waiting_human'),
      status(6, 107, 'waiting_human', 'running'),
    ];
    expect(told(events)).toEqual([
      ['reply', 'chose tool-a', 0, 2],
      ['call', 'tool-a', 2, 5],
      ['reply', 'Done.', 5, 6],
      ['wait', 'waits for a person', 7, 107],
    ]);
  });

  it('last until now while something is open, and until the end of the log where the run is over', () => {
    const events = [call(1, 0, 'a'), call(2, 4, 'b')];
    expect(told(events, BEGUN + 10_000, false)).toEqual([
      ['call', 'tool-a', 0, 10],
      ['call', 'tool-b', 4, 10],
    ]);
    expect(told(events, BEGUN + 10_000, true)[0]).toEqual(['call', 'tool-a', 0, 4]);
  });

  it('mark calls that failed', () => {
    const bars = timelineBars([call(1, 0, 'a'), result(2, 1, 'a', { is_error: true })], BEGUN, true);
    expect(bars[0]?.isFailed).toBe(true);
  });

  it('bear unreadable times, clocks that go back by a day, and payloads of any kind', () => {
    const events = [
      event(1, 'no time', 'agent.tool_call', { tool_call_id: 'x' }),
      event(2, 0, 'agent.tool_call', 'no object', 7),
      call(3, 10, 'a'),
      result(4, 10 - 86_400, 'a'),
      result(5, 11, 'never called'),
      event(6, 12, 'never.seen', [1]),
    ];
    const bars = timelineBars(events, BEGUN - 86_400_000, false);
    expect(bars.every((bar) => bar.end >= bar.start)).toBe(true);
    expect(timelineBars([], BEGUN, false)).toEqual([]);
    expect(timelineBars([event(1, 'no time', 'agent.message')], BEGUN, false)).toEqual([]);
  });
});

describe('the scale of a timeline', () => {
  const burst = (from: number) =>
    Array.from({ length: 6 }, (_, at) => [
      call(0, from + at, `c${from + at}`),
      result(0, from + at + 0.5, `c${from + at}`),
    ]).flat();
  const events = [
    ...burst(0),
    status(90, 6, 'running', 'waiting_human'),
    status(91, 7206, 'waiting_human', 'running'),
    ...burst(7206),
  ].map((one, at) => ({ ...one, sequence: at + 1 }));
  const bars = timelineBars(events, BEGUN, true);
  const scale = timelineScale(bars, BEGUN, BEGUN + 7_212_000);

  it('folds a long wait, so that the bursts around it have most of the width', () => {
    const folds = scale.stretches.filter((stretch) => stretch.isFolded);
    expect(folds).toHaveLength(1);
    expect(scale.place(BEGUN + 6_000)).toBeGreaterThan(0.4);
    expect(scale.place(BEGUN + 7_206_000) - scale.place(BEGUN + 6_000)).toBeLessThan(0.06);
  });

  it('never folds time in which a call runs', () => {
    const long = timelineBars(
      [...burst(0), call(50, 8, 'long'), result(51, 5_000, 'long'), ...burst(5_001)],
      BEGUN,
      true,
    );
    expect(timelineScale(long, BEGUN, BEGUN + 5_007_000).stretches.some((stretch) => stretch.isFolded)).toBe(false);
  });

  it('goes from time to place and back, in order, and covers the whole width', () => {
    let before = -1;
    for (let second = 0; second <= 7_212; second += 3) {
      const place = scale.place(BEGUN + second * 1000);
      expect(place).toBeGreaterThanOrEqual(before);
      before = place;
    }
    expect(scale.place(BEGUN)).toBe(0);
    expect(scale.place(BEGUN + 7_212_000)).toBeCloseTo(1);
    for (const place of [0, 0.1, 0.45, 0.5, 0.9, 1]) expect(scale.place(scale.timeAt(place))).toBeCloseTo(place);
  });

  it('bears a range of no length, and a log of 25,000 calls', () => {
    expect(timelineScale([], BEGUN, BEGUN).place(BEGUN)).toBe(0);
    const many = Array.from({ length: 25_000 }, (_, at) => [
      call(2 * at + 1, at, `c${at}`),
      result(2 * at + 2, at + 0.4, `c${at}`),
    ]).flat();
    const begun = performance.now();
    const all = timelineBars(many, BEGUN, true);
    const wide = timelineScale(all, BEGUN, BEGUN + 25_000_000);
    expect(all.length).toBe(49_999);
    expect(wide.place(BEGUN + 12_500_000)).toBeCloseTo(0.5);
    expect(performance.now() - begun).toBeLessThan(2_000);
  });
});
