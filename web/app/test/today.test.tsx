import { fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Page } from '../src/pages/today/index.js';
import { answer, refused } from './app.js';
import { approval, DECIDER, decidingServer, pass, showDeciding } from './deciding.js';

const AT = '2026-01-31T09:00:00Z';
const session = (id: string, more: object = {}) => ({
  id,
  title: `Session ${id}`,
  status: 'running',
  session_type: 'agent',
  agent_slug: null,
  claim: null,
  started_at: AT,
  completed_at: AT,
  last_activity_at: AT,
  error_message: null,
  ...more,
});
const line = (parts: object) => ({ approval: null, session: null, task: null, ...parts });
const TASK = { id: 't1', name: 'Report the weather', agent_slug: 'reporter' };
const APPROVALS = [
  approval('young', { created_at: '2026-01-31T09:20:00Z' }),
  approval('old', { staged: { name: 'send_mail', args: { what: '<b>now</b>' } } }),
  approval('soon', { expires_at: '2026-01-31T10:30:30Z', kind: 'question', staged: { text: 'Which city?' } }),
];

const press = (key: string, more: object = {}) =>
  fireEvent.keyDown(document.activeElement ?? document.body, { key, ...more });
const list = (name: string) => within(screen.getByRole('list', { name }));

function todayServer() {
  const server = decidingServer(APPROVALS);
  const buckets: Record<string, object[]> = {
    running: [line({ session: session('r1') })],
    delegatable: [line({ task: TASK })],
    failed: [line({ session: session('f1', { status: 'failed', error_message: 'No bread.' }) })],
    done_today: [line({ session: session('d1', { status: 'completed' }) })],
  };
  server.on('GET /api/today/needs_me', () =>
    answer({
      items: [...server.pending.values()].map((one) => line({ approval: one, session: session(one.session_id) })),
      next_cursor: null,
    }),
  );
  for (const [bucket, items] of Object.entries(buckets)) {
    server.on(`GET /api/today/${bucket}`, () => answer({ items, next_cursor: null }));
  }
  server.on('GET /api/today/work-queue-counts', () =>
    answer({ needs_me: 3, running: 1, delegatable: 1, failed: 1, done_today: 1 }),
  );
  server.on('GET /api/sessions/r1/children', () =>
    answer({
      items: ['completed', 'running', 'pending'].map((status, at) => session(`c${at}`, { status })),
      next_cursor: null,
    }),
  );
  return server;
}

async function openToday(change: (server: ReturnType<typeof todayServer>) => void = () => undefined) {
  history.replaceState(null, '', '/');
  const server = todayServer();
  change(server);
  showDeciding(<Page />);
  await pass();
  await pass();
  await pass();
  return server;
}

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-01-31T09:30:00Z') });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('Today', () => {
  it('shows what needs the person by urgency, and the other buckets in their sections', async () => {
    await openToday();
    expect(
      list('Needs you')
        .getAllByRole('link')
        .map((row) => row.textContent),
    ).toEqual([
      'questionWhich city?expires in 1 h',
      'tool callsend_mail “<b>now</b>”waits 30 min',
      'tool callsend_mail “letter young”waits 10 min',
    ]);
    expect(list('Running').getByText('1 of 3 steps done')).toBeDefined();
    expect(list('Failed').getByText('No bread.')).toBeDefined();
    expect(list('Done today').getByText('Session d1')).toBeDefined();
  });

  it('goes to the section of the bucket that is picked in the strip', async () => {
    await openToday();
    fireEvent.click(screen.getByRole('button', { name: /failed/ }));
    expect(document.activeElement?.textContent).toContain('Session f1');
  });

  it('approves the current row by a, after five seconds, and moves on', async () => {
    const server = await openToday();
    press('j');
    press('j');
    press('a');
    await pass();
    expect(list('Needs you').getAllByRole('link').length).toBe(2);
    expect(document.activeElement?.textContent).toContain('letter young');
    expect(server.decided).toEqual([]);
    await pass(5_200);
    expect(server.decided).toEqual([{ id: 'old', body: { decision: 'approve', digest: 'digest-old' } }]);
  });

  it('takes an approval back', async () => {
    const server = await openToday();
    press('j');
    press('j');
    press('a');
    await pass(1_000);
    fireEvent.click(screen.getByRole('button', { name: /Undo/ }));
    await pass(10_000);
    expect(list('Needs you').getAllByRole('link').length).toBe(3);
    expect(server.decided).toEqual([]);
  });

  it('decides nothing by a while no row is current', async () => {
    const server = await openToday();
    press('a');
    press('r');
    await pass(6_000);
    expect(server.decided).toEqual([]);
    expect(screen.queryByRole('dialog')).toBeNull();
  });

  it('rejects the current row with a reason', async () => {
    const server = await openToday();
    press('j');
    press('j');
    press('r');
    await pass();
    fireEvent.click(screen.getByRole('button', { name: 'Not now.' }));
    fireEvent.click(screen.getByRole('button', { name: /^Reject/ }));
    await pass(5_200);
    expect(server.decided[0]).toEqual({
      id: 'old',
      body: { decision: 'deny', reason: 'Not now.', digest: 'digest-old' },
    });
  });

  it('opens the inbox to edit, and to answer a question', async () => {
    await openToday();
    press('j');
    press('a');
    await pass();
    expect(location.pathname).toBe('/inbox/soon');
    press('j');
    press('e');
    await pass();
    expect(location.pathname + location.search).toBe('/inbox/old?do=edit');
  });

  it('hands a task over by t, once, and leads to its run', async () => {
    const server = await openToday();
    server.on('POST /api/tasks/t1/trigger', () => answer({ id: 'new' }, 201));
    for (let at = 0; at < 5; at += 1) press('j');
    press('t');
    press('t');
    await pass();
    const sent = server.sent('POST /api/tasks/t1/trigger');
    expect(sent.length).toBe(1);
    expect(sent[0]?.headers.get('idempotency-key')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Open' }));
    expect(location.pathname).toBe('/sessions/new');
  });

  it('tries a failed run again, and says why that is refused', async () => {
    const server = await openToday();
    server.on('POST /api/sessions/f1/retry', () => refused(409, 'retry_limit'));
    fireEvent.click(screen.getByRole('button', { name: 'Retry' }));
    await pass();
    expect(screen.getByText('Session f1: refused: retry_limit (id req-1)')).toBeDefined();
  });

  it('shows the other sections where one cannot be read', async () => {
    await openToday((server) => {
      server.on('GET /api/today/running', () => refused(403, 'forbidden'));
      server.on('GET /api/today/work-queue-counts', () => refused(403, 'forbidden'));
    });
    expect(screen.getAllByRole('alert').length).toBe(2);
    expect(list('Needs you').getAllByRole('link').length).toBe(3);
  });

  it('says what each empty section means', async () => {
    await openToday((server) => {
      for (const bucket of ['needs_me', 'running', 'delegatable', 'failed', 'done_today']) {
        server.on(`GET /api/today/${bucket}`, () => answer({ items: [], next_cursor: null }));
      }
    });
    expect(screen.getByText('Nothing needs you.')).toBeDefined();
    expect(screen.getByText('No task waits to be handed over.')).toBeDefined();
    expect(screen.getByText('Nothing is done yet today.')).toBeDefined();
  });

  it('offers no decisions and no trigger to those who may neither', async () => {
    await openToday((server) => server.on('GET /api/me', () => answer({ ...DECIDER, role: 'guest', can: [] })));
    expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull();
    expect(screen.queryByRole('button', { name: 'Trigger' })).toBeNull();
  });
});
