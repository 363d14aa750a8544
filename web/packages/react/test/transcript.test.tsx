import { act, fireEvent, screen } from '@testing-library/react';
import { createRef } from 'react';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { SessionEvent } from '../src/api/types.js';
import {
  SessionTranscript,
  type SessionTranscriptProps,
  type TranscriptHandle,
} from '../src/components/SessionTranscript.js';
import { NO_ROWS, transcriptRows } from '../src/components/transcriptRows.js';
import { installLayout, rowsOf, rowUnderEye, scrollerOf, VIEWPORT_PX } from './layout.js';
import { pass, setUp } from './render.js';
import { event, fakeLog, refusal } from './server.js';

describe('the rows of a transcript', () => {
  const call = (sequence: number, id: string) =>
    event(sequence, { type: 'agent.tool_call', metadata: { tool_call_id: id, tool_name: 'find' } });
  const result = (sequence: number, id: string) =>
    event(sequence, { type: 'agent.tool_result', metadata: { tool_call_id: id, tool_name: 'find' } });
  const told = (rows: ReturnType<typeof transcriptRows>) =>
    rows.rows.map((row) => (row.result === undefined ? row.key : [row.key, row.result.sequence]));

  it('joins a call and its result, and leaves orphans of both kinds alone', () => {
    const events = [event(1), call(2, 'a'), call(3, 'b'), event(4), result(5, 'a'), result(6, 'x'), result(7, 'a')];
    expect(told(transcriptRows(NO_ROWS, events))).toEqual([1, [2, 5], 3, 4, 6, 7]);
  });

  it('gives the same rows event by event as all at once, and keeps those that did not change', () => {
    const events = [call(1, 'a'), event(2), call(3, 'b'), result(4, 'b'), result(5, 'a'), event(6)];
    let rows = NO_ROWS;
    for (let count = 1; count <= events.length; count += 1) {
      const before = rows;
      rows = transcriptRows(before, events.slice(0, count));
      expect(told(rows)).toEqual(told(transcriptRows(NO_ROWS, events.slice(0, count))));
      if (count === 6) expect(rows.rows.slice(0, 3)).toEqual(before.rows.slice(0, 3));
      if (count === 6) expect(rows.rows.every((row, at) => at === 3 || row === before.rows[at])).toBe(true);
    }
  });

  it('starts anew where earlier events came in front', () => {
    const later = [result(3, 'a'), event(4)];
    const rows = transcriptRows(NO_ROWS, later);
    expect(told(rows)).toEqual([3, 4]);
    expect(told(transcriptRows(rows, [call(2, 'a'), ...later]))).toEqual([[2, 3], 4]);
  });
});

// The list takes hold of the timers when it is loaded, so they are replaced before that, and once for all tests.
vi.hoisted(() => vi.useFakeTimers());

beforeEach(installLayout);

async function transcript(count: number, props: Partial<SessionTranscriptProps> = {}) {
  const page = setUp();
  const log = fakeLog(page.server);
  for (let at = 0; at < count; at += 1) log.append();
  const shown = page.show(<SessionTranscript sessionId="s" {...props} />);
  await pass(200);
  await pass(200);
  return { ...page, log, ...shown };
}

async function scrollTo(container: Element, top: number) {
  await act(async () => {
    scrollerOf(container).scrollTo({ top });
    await vi.advanceTimersByTimeAsync(400);
  });
}

const lastSeen = (container: Element) => rowsOf(container).filter((row) => row.top < VIEWPORT_PX && row.bottom > 0);

describe('SessionTranscript', () => {
  it('opens at the newest event, oldest to newest, with few rows in the page', async () => {
    const { container, log } = await transcript(1_000);
    const seen = lastSeen(container);
    expect(seen.at(-1)?.sequence).toBe(1_000);
    expect(seen.at(-1)?.bottom).toBeCloseTo(VIEWPORT_PX);
    const sequences = rowsOf(container).map((row) => row.sequence);
    expect(sequences).toEqual([...sequences].sort((one, other) => one - other));
    expect(sequences.length).toBeLessThanOrEqual(60);
    expect(log.streams.length).toBe(1);
    expect(container.querySelector<HTMLElement>('.sdr-scroller-frame')?.style.height).toBe('24rem');
  });

  it('has at most 60 rows in the page while ten thousand are loaded and scrolled through', async () => {
    const { container, queries } = await transcript(10);
    const events = Array.from({ length: 10_000 }, (_, at) => event(at + 1));
    await act(async () => {
      const [key] = queries.getQueriesData({ queryKey: ['sessions', 's', 'events'] })[0] ?? [];
      queries.setQueryData(key as readonly unknown[], { events, lastSequence: 10_000, earlierBefore: null });
      await vi.advanceTimersByTimeAsync(200);
    });
    let most = rowsOf(container).length;
    for (const top of [0, 5_000, 123_456, 400_000, 77_000, 680_000]) {
      await scrollTo(container, top);
      expect(lastSeen(container).length).toBeGreaterThan(3);
      most = Math.max(most, rowsOf(container).length);
    }
    expect(most).toBeLessThanOrEqual(60);
  });

  it('follows the end while the reader is there, and tells how to get back', async () => {
    const { container, log } = await transcript(150);
    for (let at = 0; at < 30; at += 1) log.append();
    await pass(400);
    expect(lastSeen(container).at(-1)?.sequence).toBe(180);
    expect(screen.queryByText('↓ Newest')).toBeNull();
    await scrollTo(container, 2_000);
    fireEvent.click(screen.getByText('↓ Newest'));
    await pass(400);
    expect(lastSeen(container).at(-1)?.sequence).toBe(180);
    expect(screen.queryByText('↓ Newest')).toBeNull();
  });

  it('keeps the row under the eye while events arrive below', async () => {
    const { container, log } = await transcript(150);
    await scrollTo(container, 2_000);
    const before = rowUnderEye(container);
    for (let at = 0; at < 20; at += 1) {
      log.append();
      await pass(50);
      expect(rowUnderEye(container)).toEqual(before);
    }
  });

  it('keeps the row under the eye while earlier events are loaded ten times and others arrive', async () => {
    const { container, log } = await transcript(1_200);
    await scrollTo(container, 600);
    for (let round = 0; round < 10; round += 1) {
      const before = rowUnderEye(container);
      fireEvent.click(screen.getByText('Load earlier events'));
      log.append();
      await pass(300);
      const after = rowUnderEye(container);
      expect(after?.sequence).toBe(before?.sequence);
      expect(Math.abs((after?.top ?? 0) - (before?.top ?? 0))).toBeLessThanOrEqual(1);
      await scrollTo(container, 600);
    }
    expect(log.events.length).toBe(1_210);
  });

  it('shows a reply while it is written, and its message afterwards, once', async () => {
    const { container, log } = await transcript(3);
    log.open?.send('delta', { text: 'Rain unt', offset: 0 });
    await pass(200);
    expect(container.querySelector('.sdr-unfinished')?.textContent).toContain('Rain unt');
    log.append({ type: 'agent.message', content: [{ type: 'text', text: 'Rain until five.' }] });
    await pass(200);
    expect(container.querySelector('.sdr-unfinished')).toBeNull();
    expect(container.querySelector('[data-seq="4"]')?.textContent).toContain('Rain until five.');
  });

  it('says one sentence for a finished message, and nothing for deltas or what was there', async () => {
    const { log } = await transcript(3);
    const status = screen.getByRole('status');
    expect(status.textContent).toBe('');
    log.open?.send('delta', { text: 'Rain', offset: 0 });
    await pass(200);
    expect(status.textContent).toBe('');
    log.append({ type: 'agent.message', content: 'Rain until five.' });
    await pass(200);
    expect(status.textContent).toBe('agent: Rain until five.');
    log.append({ type: 'session.status_change', metadata: { from: 'running', to: 'idle' } });
    await pass(200);
    expect(status.textContent).toBe('agent: Rain until five.');
  });

  it('says a message that comes together with what follows it, by its first sentence alone', async () => {
    const { log } = await transcript(3);
    log.append({ type: 'agent.message', content: 'Sun after 5.30 p.m. tomorrow! Then wind, and much of it.' });
    log.append({ type: 'session.status_change', metadata: { from: 'running', to: 'completed' } });
    log.append({ type: 'session.completed' });
    await pass(200);
    expect(screen.getByRole('status').textContent).toMatch(/^agent: Sun after 5\.30 p\.m\.( tomorrow!)?$/);
  });

  it('counts what came while the reader was elsewhere', async () => {
    const { container, log } = await transcript(150);
    await scrollTo(container, 2_000);
    for (let at = 0; at < 3; at += 1) log.append();
    await pass(400);
    fireEvent.click(screen.getByText('↓ 3 new'));
    await pass(400);
    expect(lastSeen(container).at(-1)?.sequence).toBe(153);
  });

  it('brings the row of an event into sight, marks it, and says when it is too old', async () => {
    const handle = createRef<TranscriptHandle>();
    const { container } = await transcript(150, { handleRef: handle, selectedSequence: 70 });
    expect(handle.current?.toSequence(10)).toBe(false);
    act(() => expect(handle.current?.toSequence(70)).toBe(true));
    await pass(400);
    expect(lastSeen(container).map((row) => row.sequence)).toContain(70);
    expect(container.querySelector('[aria-current="true"]')?.getAttribute('data-seq')).toBe('70');
    act(() => handle.current?.toOldest());
    await pass(400);
    expect(lastSeen(container)[0]?.sequence).toBe(51);
    act(() => handle.current?.toNewest());
    await pass(400);
    expect(lastSeen(container).at(-1)?.sequence).toBe(150);
  });

  it('leaves out what the filter refuses, also of what comes later', async () => {
    const isTalk = (one: SessionEvent) => one.type === 'user.message';
    const { container, log } = await transcript(3, { filter: isTalk, renderRowEnd: (one) => <b>{one.type}</b> });
    log.append({ type: 'session.status_change' });
    log.append();
    await pass(300);
    expect(rowsOf(container).map((row) => row.sequence)).toEqual([1, 2, 3, 5]);
    expect(container.querySelector('[data-seq="5"] .sdr-row-end')?.textContent).toBe('user.message');
  });

  it('shows everything that a log may hold', async () => {
    const { container, log } = await transcript(0);
    const line = 'x'.repeat(256 * 1024);
    const deep = JSON.parse(`${'{"a":'.repeat(64)}1${'}'.repeat(64)}`);
    log.append({ type: 'never.seen', content: null, metadata: { cents: 12 } });
    log.append({ content: 'no array' });
    log.append({ content: [{ type: 'text' }, null] });
    log.append({ content: [{ type: 'text', text: '<script>alert(1)</script><img src=x onerror=alert(2)>' }] });
    log.append({
      content: [{ type: 'text', text: '\u202eright to left\u200b\u001b[31m' }],
      at: 'no time',
      author: null,
    });
    log.append({ type: 'agent.tool_call', content: deep, metadata: 'no object' });
    log.append({ type: 'agent.tool_result', content: null, metadata: null });
    await pass(300);
    const text = (sequence: number) => container.querySelector(`[data-seq="${sequence}"] .sdr-row-body`)?.textContent;
    expect(text(1)).toContain('"cents": 12');
    expect(text(2)).toBe('no array');
    expect(text(3)).toBe('(no text)');
    expect(text(4)).toBe('<script>alert(1)</script><img src=x onerror=alert(2)>');
    expect(container.querySelector('script, img')).toBeNull();
    expect(text(6)).toContain('no result');
    expect(text(7)).toContain('result without its call');
    log.append({ content: [{ type: 'text', text: line }] });
    log.append({ content: [{ type: 'text', text: 'line\n'.repeat(10_000) }] });
    await pass(300);
    expect(text(8)?.length).toBeLessThan(3_000);
    expect(text(8)).toContain('Show all (262,144 characters)');
    expect(text(9)?.split('\n').length).toBeLessThan(14);
    fireEvent.click(screen.getByText('Show all (262,144 characters)'));
    expect(text(8)?.length).toBe(line.length);
  });

  it('shows a row raw that cannot be drawn, and the rows around it', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const { container } = await transcript(3, {
      renderMarkdown: (text) => {
        if (text === 'line 2') throw new Error('a markdown bomb');
        return <em>{text}</em>;
      },
    });
    expect(container.querySelector('[data-seq="1"] em')?.textContent).toBe('line 1');
    expect(container.querySelector('[data-seq="2"]')?.textContent).toContain('"sequence": 2');
    expect(container.querySelector('[data-seq="3"] em')?.textContent).toBe('line 3');
  });

  it('opens a call to its arguments and result', async () => {
    const { container, log } = await transcript(0);
    const metadata = { tool_call_id: 'c', tool_name: 'find_invoice' };
    log.append({ type: 'agent.tool_call', content: [{ type: 'tool-call', args: { number: 52562 } }], metadata });
    log.append({
      type: 'agent.tool_result',
      content: [{ type: 'tool-result', result: '10 boxes' }],
      metadata,
      at: '2026-01-31T09:30:04Z',
    });
    await pass(300);
    expect(container.querySelectorAll('[data-seq]').length).toBe(1);
    const button = screen.getByRole('button', { name: /find_invoice/ });
    expect(button.textContent).toContain('4 s ✓ done');
    fireEvent.click(button);
    expect(button.getAttribute('aria-expanded')).toBe('true');
    expect(container.querySelector('.sdr-call-detail')?.textContent).toContain('52562');
    expect(container.querySelector('.sdr-call-detail')?.textContent).toContain('10 boxes');
  });

  it('says that it lost the server, and when it is back', async () => {
    const { container, log } = await transcript(3);
    const phase = () => container.querySelector('.sdr-phase')?.textContent;
    expect(phase()).toBe('Live');
    log.refuse = () => refusal(503, 'unavailable');
    log.open?.breakOff();
    await pass(100);
    expect(phase()).toBe('Lost the server. Trying again…');
    log.refuse = undefined;
    await pass(2_000);
    expect(phase()).toBe('Live');
  });

  it('shows why it cannot be read, with the id of the request, and tries again', async () => {
    const page = setUp();
    page.server.on('GET /api/sessions/s/events', () => refusal(404, 'not_found'));
    page.show(<SessionTranscript sessionId="s" isLive={false} />);
    await pass(100);
    expect(screen.getByRole('alert').textContent).toContain('refused: not_found (id req-1)');
    fakeLog(page.server).append();
    fireEvent.click(screen.getByText('Try again'));
    await pass(300);
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('says that there is nothing', async () => {
    await transcript(0);
    expect(screen.getByText('No events yet.')).toBeDefined();
  });

  it('says that there is nothing of the wanted types, where the filter leaves all out', async () => {
    await transcript(3, { filter: (one) => one.type === 'agent.thinking' });
    expect(screen.getByText('Nothing of these types so far.')).toBeDefined();
  });

  it('can be reached and named by keyboard and screen reader', async () => {
    const { container } = await transcript(3, { label: 'Log of the run', className: 'mine', height: '50vh' });
    const region = screen.getByRole('region', { name: 'Log of the run' });
    expect(region.tabIndex).toBe(0);
    expect(container.querySelector('.sdr-transcript.mine')).not.toBeNull();
  });
});
