import { fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { byUrgency, waitWords } from '../src/decisions/approvalWords.js';
import { Page } from '../src/pages/inbox/index.js';
import { answer, refused } from './app.js';
import { approval, decidingServer, pass, showDeciding } from './deciding.js';

const LETTERS = [approval('a'), approval('b'), approval('c')];
const QUESTION = approval('q', { kind: 'question', staged: { text: 'Which city?' } });

const press = (key: string, more: object = {}) =>
  fireEvent.keyDown(document.activeElement ?? document.body, { key, ...more });
const rows = () => within(screen.getByRole('list', { name: 'Approvals' })).getAllByRole('link');
const openId = () => location.pathname.replace('/inbox/', '');

async function openInbox(approvals = LETTERS, path = '/inbox') {
  history.replaceState(null, '', path);
  const server = decidingServer(approvals);
  showDeciding(<Page />);
  await pass(200);
  return server;
}

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-01-31T09:30:00Z') });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the order of what needs a person', () => {
  it('begins with what expires within a day, the soonest first, and goes on with the oldest', () => {
    const now = Date.now();
    const list = [
      approval('young', { created_at: '2026-01-31T09:20:00Z' }),
      approval('old', { created_at: '2026-01-30T09:00:00Z', expires_at: '2026-02-07T09:00:00Z' }),
      approval('tonight', { expires_at: '2026-01-31T20:00:00Z' }),
      approval('noon', { expires_at: '2026-01-31T12:00:00Z' }),
    ];
    expect(list.sort(byUrgency(now)).map((one) => one.id)).toEqual(['noon', 'tonight', 'old', 'young']);
    expect(list.map((one) => waitWords(one, now))).toEqual([
      'expires in 2 h 30 min',
      'expires in 10 h 30 min',
      'waits 1 d',
      'waits 10 min',
    ]);
  });

  it('survives clocks that are a day off, and times that cannot be read', () => {
    const now = Date.parse('2026-01-30T09:00:00Z');
    expect(waitWords(approval('a'), now)).toBe('waits 0 s');
    expect(waitWords(approval('a', { created_at: 'x', expires_at: 'y' }), now)).toBe('waits 0 s');
  });
});

describe('the inbox', () => {
  it('opens the first, goes through the others by j and k, and moves on after a decision', async () => {
    const server = await openInbox();
    expect(openId()).toBe('a');
    press('j');
    await pass();
    expect(openId()).toBe('b');
    expect(document.activeElement?.textContent).toContain('letter b');
    press('a');
    await pass();
    expect(openId()).toBe('c');
    expect(rows().length).toBe(2);
    expect(server.decided).toEqual([]);
    await pass(5_200);
    expect(server.decided).toEqual([{ id: 'b', body: { decision: 'approve', digest: 'digest-b' } }]);
  });

  it('brings an approval back whose decision is taken back, and sends nothing', async () => {
    const server = await openInbox();
    press('a');
    await pass(2_000);
    fireEvent.click(screen.getByRole('button', { name: /Undo/ }));
    await pass(10_000);
    expect(rows().length).toBe(3);
    expect(server.decided).toEqual([]);
  });

  it('rejects with a reason by keys alone', async () => {
    const server = await openInbox();
    press('r');
    await pass();
    const field = screen.getByLabelText('Reason (the agent is told)');
    expect(document.activeElement).toBe(field);
    fireEvent.change(field, { target: { value: 'Ask first.' } });
    press('Enter', { ctrlKey: true });
    await pass(5_200);
    expect(server.decided).toEqual([{ id: 'a', body: { decision: 'deny', reason: 'Ask first.', digest: 'digest-a' } }]);
  });

  it('edits by e, leaves the editor by Escape with the focus on its button, and approves the edits', async () => {
    const server = await openInbox();
    press('e');
    await pass();
    expect(document.activeElement).toBe(screen.getByLabelText('what'));
    press('a');
    fireEvent.change(screen.getByLabelText('what'), { target: { value: 'card' } });
    press('Escape');
    await pass();
    expect(document.activeElement?.textContent).toContain('Edit');
    press('a');
    await pass(5_200);
    expect(server.decided).toEqual([
      { id: 'a', body: { decision: 'approve', modified_args: { what: 'card' }, digest: 'digest-a' } },
    ]);
  });

  it('decides on like approvals together, and selects nothing unlike or a question', async () => {
    const other = approval('o', { staged: { name: 'pay', args: {} } });
    const server = await openInbox([...LETTERS, other, QUESTION]);
    press('x');
    await pass();
    expect(screen.getByText('1 selected')).toBeDefined();
    expect(screen.getByRole('checkbox', { name: 'Select pay' })).toHaveProperty('disabled', true);
    expect(screen.getByRole('checkbox', { name: 'Select Which city?' })).toHaveProperty('disabled', true);
    fireEvent.click(screen.getByRole('button', { name: 'Select all 3 alike' }));
    press('a');
    await pass(5_200);
    expect(server.decided.map((one) => one.id)).toEqual(['a', 'b', 'c']);
    expect(openId()).toBe('o');
  });

  it('takes all of a batch back at once', async () => {
    const server = await openInbox();
    press('x');
    await pass();
    fireEvent.click(screen.getByRole('button', { name: 'Select all 3 alike' }));
    press('a');
    await pass();
    expect(screen.getByText('Nothing needs you.')).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: /Undo/ }));
    await pass(10_000);
    expect(rows().length).toBe(3);
    expect(server.decided).toEqual([]);
  });

  it('rejects a batch with one reason', async () => {
    const server = await openInbox();
    press('x');
    await pass();
    fireEvent.click(screen.getByRole('button', { name: 'Select all 3 alike' }));
    press('r');
    await pass();
    fireEvent.click(screen.getByRole('button', { name: 'Not now.' }));
    press('Enter', { ctrlKey: true });
    await pass(5_200);
    expect(server.decided.map((one) => one.body['reason'])).toEqual(['Not now.', 'Not now.', 'Not now.']);
  });

  it('tells of a refused decision wherever the person is, and shows it with their edits again', async () => {
    const server = await openInbox();
    server.state.refuse = (id) => (id === 'a' ? refused(422, 'invalid') : undefined);
    press('e');
    await pass();
    fireEvent.change(screen.getByLabelText('what'), { target: { value: 'card' } });
    press('Enter', { ctrlKey: true });
    await pass(5_200);
    expect(openId()).toBe('b');
    expect(screen.getByText('Not decided: refused: invalid (id req-1)')).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: 'Open' }));
    await pass();
    expect(openId()).toBe('a');
    expect(screen.getByRole('alert').textContent).toContain('refused: invalid');
    expect(screen.getByRole('rowheader', { name: /what/ }).textContent).toContain('(edited)');
  });

  it('keeps what is written while the person is signed out, and sends it once after signing in', async () => {
    const server = await openInbox([QUESTION]);
    const replies: unknown[] = [];
    server.on('POST /api/sessions/s-q/elicitation-reply', ({ body }) => {
      if (!server.state.isSignedIn) return refused(401, 'unauthorized');
      replies.push(body);
      server.pending.delete('q');
      return answer({ id: 's-q' });
    });
    server.state.isSignedIn = false;
    fireEvent.change(screen.getByLabelText('Which city?'), { target: { value: 'Oban' } });
    fireEvent.submit(screen.getByLabelText('Which city?'));
    await pass();
    await pass();
    expect((screen.getByLabelText('Which city?') as HTMLTextAreaElement).value).toBe('Oban');
    fireEvent.change(screen.getByLabelText('Key'), { target: { value: 'sdr_secret' } });
    fireEvent.submit(screen.getByLabelText('Key'));
    await pass();
    await pass();
    await pass();
    expect(replies).toEqual([{ reply: 'Oban' }]);
    expect(screen.getByText('Nothing needs you.')).toBeDefined();
  });

  it.each([
    ['a kind that it does not know', { kind: 'prophecy' }],
    ['a staged value that is no object', { staged: 7 }],
    ['right-to-left and zero-width text of 10,000 lines', { staged: { name: 'x', args: { a: '‮א​\n'.repeat(10_000) } } }],
    ['markup', { staged: { name: '<script>', args: { a: '<img src=x onerror=alert(1)>' } } }],
  ])('shows %s', async (_name, more) => {
    await openInbox([approval('a', more)]);
    expect(rows().length).toBe(1);
    expect(document.querySelector('img, script')).toBeNull();
    if ('kind' in more || more.staged === 7) {
      expect(screen.getByText(/cannot be read, and nothing of it is carried out/)).toBeDefined();
      expect(screen.queryByRole('button', { name: /Approve/ })).toBeNull();
    }
  });

  it('takes nonsense in the address as if it were left out', async () => {
    await openInbox(LETTERS, '/inbox/nonsense?kind=zzz&whose=%00&do=boom');
    expect(rows().length).toBe(3);
    expect(screen.getByRole('alert').textContent).toContain('There is no such approval');
  });

  it('says so when nothing needs the person', async () => {
    await openInbox([]);
    expect(screen.getByText('Nothing needs you.')).toBeDefined();
  });

  it('shows why the list cannot be read, and reads it again', async () => {
    history.replaceState(null, '', '/inbox');
    const server = decidingServer(LETTERS);
    server.on('GET /api/approvals', () => refused(403, 'forbidden'));
    showDeciding(<Page />);
    await pass(200);
    expect(screen.getByRole('alert').textContent).toContain('Refused: forbidden.');
    server.on('GET /api/approvals', () => answer({ items: LETTERS, next_cursor: null }));
    fireEvent.click(screen.getByRole('button', { name: 'Try again' }));
    await pass(200);
    expect(rows().length).toBe(3);
  });

  it('offers no buttons to those who decide nothing', async () => {
    history.replaceState(null, '', '/inbox');
    const server = decidingServer(LETTERS);
    server.on('GET /api/me', () =>
      answer({ user: null, role: 'guest', can: [], tenant: 't', auth: 'x', version: '1' }),
    );
    showDeciding(<Page />);
    await pass(200);
    expect(screen.queryByRole('button', { name: /Approve/ })).toBeNull();
    press('a');
    await pass(6_000);
    expect(server.decided).toEqual([]);
  });
});
