import { fireEvent, render, screen, within } from '@testing-library/react';
import axe from 'axe-core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Approval } from '../src/api/types.js';
import { ApprovalDetail } from '../src/components/ApprovalDetail.js';
import { SessionStatusBadge } from '../src/components/SessionStatusBadge.js';
import { WorkingOnPicker } from '../src/components/WorkingOnPicker.js';
import { WorkQueueCommandStrip } from '../src/components/WorkQueueCommandStrip.js';
import { slugFor } from '../src/hooks/useActiveTasks.js';
import { SESSION_STATUSES } from '../src/vocabulary/status.js';
import { pass, setUp } from './render.js';
import { answer, refusal } from './server.js';

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse('2026-01-31T09:30:00Z') });
});
afterEach(() => {
  vi.useRealTimers();
});

/** What a checker of accessibility complains about; colours need a browser. */
async function complaints(container: Element): Promise<string[]> {
  vi.useRealTimers();
  const { violations } = await axe.run(container, {
    rules: { 'color-contrast': { enabled: false }, region: { enabled: false } },
  });
  return violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).join(' ')}`);
}

const counts = { needs_me: 4, running: 1, delegatable: 1, failed: 0, done_today: 7 };

describe('the badge', () => {
  it.each(SESSION_STATUSES)('says %s by a glyph and a word', (status) => {
    const { container } = render(<SessionStatusBadge status={status} className="mine" />);
    const badge = container.firstElementChild as HTMLElement;
    expect(badge.dataset['status']).toBe(status);
    expect(badge.textContent).toContain(status.replace('_', ' '));
    expect(badge.classList.contains('mine')).toBe(true);
  });

  it('says a status of a later version by its name', () => {
    const { container } = render(<SessionStatusBadge status="being_born" />);
    expect(container.textContent).toBe('?being born');
  });
});

describe('the command strip', () => {
  it('shows five buckets and tells which one was picked', async () => {
    const onPick = vi.fn();
    const { container } = render(<WorkQueueCommandStrip counts={counts} onPick={onPick} />);
    const buttons = screen.getAllByRole('button');
    expect(buttons.map((button) => button.textContent)).toEqual([
      '4 need you',
      '1 running',
      '1 can be handed over',
      '0 failed',
      '7 done today',
    ]);
    for (const button of buttons) fireEvent.click(button);
    expect(onPick.mock.calls.flat()).toEqual(Object.keys(counts));
    expect(await complaints(container)).toEqual([]);
  });

  it('shows no figures before it has them', () => {
    render(<WorkQueueCommandStrip counts={undefined} />);
    expect(screen.getAllByRole('button').every((button) => (button as HTMLButtonElement).disabled)).toBe(true);
  });
});

const task = (id: string, name: string) => ({ id, name, slug: id, status: 'active' });

function picker(working = false) {
  const page = setUp();
  const session = { id: 'h', status: 'running', title: 'Q2 review', started_at: '2026-01-31T09:18:00Z' };
  let now: object = working ? { session, task: task('q2', 'Q2 review') } : { session: null };
  page.server.on('GET /api/sessions/human/active', () => answer(now));
  page.server.on('GET /api/tasks', () =>
    answer({ items: [task('q2', 'Q2 review'), task('f', 'Forecast')], next_cursor: null }),
  );
  page.server.on('POST /api/sessions/human/start', ({ body }) => {
    now = { session: { ...session, id: 'h2' }, task: task((body as { task_id: string }).task_id, 'Forecast') };
    return answer(now, 201);
  });
  page.server.on('POST /api/sessions/human/stop', () => {
    now = { session: null };
    return answer(session);
  });
  return page;
}

const open = () => fireEvent.click(screen.getByRole('button', { expanded: false }));

describe('the working-on picker', () => {
  it('is one button while nothing is worked on, and starts the task that is picked by keyboard', async () => {
    const { show, server } = picker();
    show(<WorkingOnPicker userId="ann" />);
    await pass();
    expect(screen.getAllByRole('button').map((button) => button.textContent)).toEqual(['◎ What are you working on?']);
    open();
    await pass();
    expect(server.sent('GET /api/tasks')[0]?.query.toString()).toBe('status=active&limit=200&assigned_to=ann');
    const field = screen.getByRole('combobox');
    expect(document.activeElement).toBe(field);
    expect(screen.getAllByRole('option').length).toBe(2);
    fireEvent.change(field, { target: { value: 'FORE' } });
    expect(screen.getAllByRole('option').map((option) => option.textContent)).toEqual(['  Forecast']);
    fireEvent.keyDown(field, { key: 'Enter' });
    await pass();
    expect(server.sent('POST /api/sessions/human/start')[0]?.body).toEqual({ task_id: 'f' });
    expect(screen.queryByRole('dialog')).toBeNull();
    expect(screen.getByRole('button', { name: /Working on: Forecast/ })).toBe(document.activeElement);
  });

  it('shows the task with its time, and stops by one click', async () => {
    const { show, server } = picker(true);
    show(<WorkingOnPicker />);
    await pass();
    expect(screen.getByRole('button', { name: /Working on: Q2 review\s+· 12 min/ })).toBeDefined();
    await pass(60_000);
    expect(screen.getByRole('button', { name: /Working on: Q2 review\s+· 13 min/ })).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: 'Stop working' }));
    await pass();
    expect(server.sent('POST /api/sessions/human/stop')[0]?.body).toEqual({ session_id: 'h' });
    expect(screen.getByText('What are you working on?')).toBeDefined();
  });

  it('has a second stop in its layer, switches by arrow keys, and closes by Escape and by a click outside', async () => {
    const { show, server } = picker(true);
    show(<WorkingOnPicker />);
    await pass();
    open();
    await pass();
    expect(within(screen.getByRole('dialog')).getByText('■ Stop working')).toBeDefined();
    fireEvent.keyDown(screen.getByRole('combobox'), { key: 'Escape' });
    expect(screen.queryByRole('dialog')).toBeNull();
    open();
    fireEvent.pointerDown(document.body);
    expect(screen.queryByRole('dialog')).toBeNull();
    open();
    fireEvent.keyDown(screen.getByRole('combobox'), { key: 'ArrowDown' });
    fireEvent.keyDown(screen.getByRole('combobox'), { key: 'ArrowDown' });
    fireEvent.keyDown(screen.getByRole('combobox'), { key: 'Enter' });
    await pass();
    expect(server.sent('POST /api/sessions/human/start')[0]?.body).toEqual({ task_id: 'f' });
  });

  it('creates a task by its name, assigned to me, and starts it', async () => {
    const { show, server } = picker();
    server.on('POST /api/tasks', () => answer(task('new', 'Überprüfung'), 201));
    show(<WorkingOnPicker userId="ann" />);
    await pass();
    open();
    await pass();
    fireEvent.click(screen.getByText('+ Create a task…'));
    const field = screen.getByLabelText('Name of the new task');
    expect(document.activeElement).toBe(field);
    fireEvent.change(field, { target: { value: 'Überprüfung' } });
    fireEvent.submit(field);
    await pass();
    expect(server.sent('POST /api/tasks')[0]?.body).toEqual({
      name: 'Überprüfung',
      slug: expect.stringMatching(/^uberprufung-[0-9a-f]{8}$/),
      status: 'active',
      assigned_to: 'ann',
    });
    expect(server.sent('POST /api/sessions/human/start')[0]?.body).toEqual({ task_id: 'new' });
  });

  it('keeps the name of a task that was refused, and says why', async () => {
    const { show, server } = picker();
    server.on('POST /api/tasks', () => refusal(403, 'denied'));
    show(<WorkingOnPicker />);
    await pass();
    open();
    await pass();
    fireEvent.click(screen.getByText('+ Create a task…'));
    const field = screen.getByLabelText<HTMLInputElement>('Name of the new task');
    fireEvent.change(field, { target: { value: 'x' } });
    fireEvent.submit(field);
    await pass();
    expect(screen.getByRole('alert').textContent).toBe('refused: denied');
    expect(field.value).toBe('x');
  });

  it('has names and roles', async () => {
    const { show } = picker(true);
    const { container } = show(<WorkingOnPicker />);
    await pass();
    open();
    await pass();
    expect(await complaints(container)).toEqual([]);
  });

  it.each([
    ['Q2 review!', 'q2-review-12345678'],
    ['報告', 'task-12345678'],
    ['  --  ', 'task-12345678'],
    ['a'.repeat(200), `${'a'.repeat(60)}-12345678`],
  ])('makes a slug of %s', (name, slug) => {
    expect(slugFor(name, '1234567890')).toBe(slug);
  });
});

function approval(more: Partial<Record<keyof Approval, unknown>> = {}): Approval {
  return {
    id: 'a1',
    kind: 'tool',
    session_id: 's',
    task_id: null,
    state: 'pending',
    staged: { id: 'c', name: 'send_mail', args: { to: 312, subject: 'hours', urgent: false, tags: ['x'] } },
    input_schema: null,
    score: null,
    flags: [],
    digest: 'sha',
    assigned_to: null,
    expires_at: null,
    on_expiry: 'deny',
    decided_by: null,
    decided_at: null,
    decision: null,
    promotion: null,
    edited: null,
    reason: null,
    created_at: '2026-01-31T09:00:00Z',
    ...more,
  } as Approval;
}

const DECIDE = 'POST /api/approvals/a1/decide';

function detail(of: Approval, props: object = {}) {
  const page = setUp();
  const onDecided = vi.fn();
  page.server.on(DECIDE, ({ body }) => answer({ ...of, state: 'approved', ...(body as object) }));
  const shown = page.show(<ApprovalDetail approval={of} onDecided={onDecided} {...props} />);
  return { ...page, ...shown, onDecided, sent: () => page.server.sent(DECIDE).map((call) => call.body) };
}

const press = (name: string | RegExp) => fireEvent.click(screen.getByRole('button', { name }));

describe('an approval', () => {
  it('is approved after five seconds, with the digest of what was seen', async () => {
    const { sent, onDecided } = detail(approval());
    press('Approve');
    expect(screen.getByText('Undo (5)')).toBeDefined();
    await pass(2_100);
    expect(screen.getByText('Undo (3)')).toBeDefined();
    expect(sent()).toEqual([]);
    await pass(3_000);
    expect(sent()).toEqual([{ decision: 'approve', digest: 'sha' }]);
    expect(onDecided).toHaveBeenCalledOnce();
    expect(screen.getByText('Decided.')).toBeDefined();
  });

  it('is not sent if the decision is taken back', async () => {
    const { sent } = detail(approval());
    press('Approve');
    await pass(4_000);
    press(/Undo/);
    await pass(20_000);
    expect(sent()).toEqual([]);
    expect(screen.getByRole('button', { name: 'Approve' })).toBeDefined();
  });

  it('is sent when the person leaves within that time, once', async () => {
    const { sent, unmount, server } = detail(approval());
    press('Approve');
    await pass(1_000);
    unmount();
    await pass(20_000);
    expect(sent()).toEqual([{ decision: 'approve', digest: 'sha' }]);
    expect(server.sent(DECIDE)[0]?.keepalive).toBe(true);
  });

  it('is approved with edits, each by its type, and shows them as a difference', async () => {
    const { sent, container } = detail(approval(), { undoMs: 0 });
    press('Edit');
    const edit = (name: string, value: string) => fireEvent.change(screen.getByLabelText(name), { target: { value } });
    edit('to', '12');
    edit('subject', 'new hours');
    edit('urgent', 'true');
    edit('tags', '["x", "y"]');
    expect(container.querySelectorAll('tr[data-edited="true"]').length).toBe(4);
    expect(container.querySelector('.sdr-added')?.textContent).toContain('12');
    expect(container.querySelector('.sdr-removed')?.textContent).toContain('312');
    press('Approve with edits');
    await pass();
    expect(sent()).toEqual([
      {
        decision: 'approve',
        modified_args: { to: 12, subject: 'new hours', urgent: true, tags: ['x', 'y'] },
        digest: 'sha',
      },
    ]);
  });

  it('is not sent with an edit that is no value of its type', async () => {
    const { sent } = detail(approval(), { undoMs: 0 });
    press('Edit');
    fireEvent.change(screen.getByLabelText('to'), { target: { value: 'many' } });
    fireEvent.change(screen.getByLabelText('tags'), { target: { value: '[x' } });
    expect(screen.getAllByRole('alert').map((alert) => alert.textContent)).toEqual([
      'Enter a number.',
      'This is not JSON. Check quotes, commas and brackets.',
    ]);
    press('Approve');
    await pass();
    expect(sent()).toEqual([]);
  });

  it('is rejected with a reason, or a template of one', async () => {
    const { sent } = detail(approval(), { undoMs: 0, reasonTemplates: ['Ask first.'] });
    press('Reject…');
    press('Ask first.');
    press('Reject');
    await pass();
    expect(sent()).toEqual([{ decision: 'deny', reason: 'Ask first.', digest: 'sha' }]);
  });

  it('of an output shows what it changes, and blocks at the field', async () => {
    const staged = { summary: 'Rain.', tone: 'cruel' };
    const { server, container } = detail(approval({ kind: 'output', staged, score: 1, flags: ['missing:x'] }), {
      undoMs: 0,
      entityFields: { summary: 'Sun.' },
    });
    expect([...container.querySelectorAll('tbody td')].map((cell) => cell.textContent)).toEqual([
      'Sun.',
      '+proposed Rain.',
      '–',
      '+proposed cruel',
    ]);
    expect(container.textContent).toContain('score 1.0');
    server.on(DECIDE, () => refusal(422, 'hard_blocked', { details: { dimension: 'tone', option: 'cruel' } }));
    press('Approve');
    await pass();
    const row = screen.getByRole('rowheader', { name: 'tone' }).closest('tr') as HTMLElement;
    expect(within(row).getByRole('alert').textContent).toContain('“cruel” is blocked');
    expect(screen.getByRole('button', { name: 'Approve' })).toBeDefined();
  });

  it.each([
    ['a text', 'Rain.', 'Snow.', 'Snow.'],
    ['a list of entities', [{ id: 'e' }], '[]', []],
    ['nothing', null, '{}', {}],
  ])('of an output that is %s is edited as one value', async (_name, staged, text, value) => {
    const { sent } = detail(approval({ kind: 'output', staged }), { undoMs: 0 });
    press('Edit');
    fireEvent.change(screen.getByLabelText('output'), { target: { value: text } });
    press('Approve with edits');
    await pass();
    expect(sent()).toEqual([{ decision: 'approve', modified_output: value, digest: 'sha' }]);
  });

  it.each([
    ['already_decided', { decision: 'deny', decided_by: 'Ann' }, 'Ann rejected this already.', false],
    ['already_decided', {}, 'refused: already_decided', false],
    ['stale_base', {}, 'What is staged has changed. Look at it again, then decide.', true],
    ['output_invalid', { complaints: ['summary is missing.'] }, 'summary is missing.', true],
    ['denied', {}, 'refused: denied', true],
  ])('that is refused with %s %j says so', async (code, details, sentence, canDecide) => {
    const { server } = detail(approval(), { undoMs: 0 });
    server.on(DECIDE, () => refusal(409, code, { details }));
    press('Approve');
    await pass();
    expect(screen.getByRole('alert').textContent).toBe(sentence);
    expect(screen.queryByRole('button', { name: 'Approve' }) !== null).toBe(canDecide);
  });

  it.each([
    ['of a kind that nobody knows', { kind: 'prophecy' }],
    ['that the server calls broken', { kind: 'broken' }],
    ['of a tool without a name', { staged: { args: {} } }],
    ['of a tool whose arguments are a text', { staged: { name: 'x', args: 'rm' } }],
    ['of a promotion without fields', { kind: 'promotion', staged: null }],
    ['of a question without a text', { kind: 'question', staged: { schema: {} } }],
    ['with flags that are no list', { kind: 'broken', flags: null }],
  ])('%s is shown as broken, without buttons', (_name, more) => {
    detail(approval(more));
    expect(screen.getByText('This approval cannot be read, and nothing of it is carried out.')).toBeDefined();
    expect(screen.queryAllByRole('button')).toEqual([]);
  });

  it('of a question is answered', async () => {
    const { server, onDecided } = detail(approval({ kind: 'question', staged: { text: 'Which city?' } }));
    server.on('POST /api/sessions/s/elicitation-reply', () => answer({ id: 's' }));
    fireEvent.change(screen.getByLabelText('Which city?'), { target: { value: 'Oban' } });
    press('Answer');
    await pass();
    expect(server.sent('POST /api/sessions/s/elicitation-reply')[0]?.body).toEqual({ reply: 'Oban' });
    expect(onDecided).toHaveBeenCalledOnce();
  });

  it.each([
    [undefined, 'I have read it.', { text: 'I have read it.' }],
    [{ type: 'object' }, '{"read": true}', { result: { read: true } }],
  ])('of a step that a person does, with the schema %j, is completed', async (schema, text, body) => {
    const { server } = detail(approval({ kind: 'question', staged: { text: 'Read it', step: 'read', schema } }));
    server.on('POST /api/sessions/s/human-complete', () => answer({ id: 's' }));
    fireEvent.change(screen.getByLabelText('Read it'), { target: { value: text } });
    press('Mark as done');
    await pass();
    expect(server.sent('POST /api/sessions/s/human-complete')[0]?.body).toEqual(body);
  });

  it('that is decided says by whom, and has no buttons', () => {
    detail(approval({ state: 'denied', decided_by: 'Ann', decided_at: '2026-01-31T09:20:00Z', reason: 'Not today.' }));
    expect(screen.getByText(/Rejected by Ann, 10 min ago\./)).toBeDefined();
    expect(screen.queryAllByRole('button')).toEqual([]);
  });

  it('has names and roles, while it is edited and rejected too', async () => {
    const { container } = detail(approval());
    press('Edit');
    expect(await complaints(container)).toEqual([]);
    press('Done editing');
    press('Reject…');
    expect(await complaints(container)).toEqual([]);
  });
});
