/** The detail of an approval that comes with its context, and decisions that outlive their component. */
import { act, fireEvent, screen, within } from '@testing-library/react';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { ApprovalInContext } from '../src/approval/context.js';
import { ApprovalDetail } from '../src/components/ApprovalDetail.js';
import { useApproval, useDecisionOutbox, useOutboxDecision } from '../src/hooks/useApprovalDecision.js';
import { pass, setUp } from './render.js';
import { answer, refusal } from './server.js';

const DECIDE = 'POST /api/approvals/a1/decide';
const SCHEMA = {
  type: 'object',
  required: ['summary', 'tone'],
  properties: { summary: { type: 'string' }, tone: { enum: ['kind', 'curt', 'cruel'] } },
};
const CRITERIA = [
  {
    slug: 'tone',
    options: [{ value: 'kind' }, { value: 'curt', flag: 'careful' }, { value: 'cruel' }],
    option_styles: { cruel: { hard_block: true } },
  },
];

function approval(more: Partial<Record<keyof ApprovalInContext, unknown>> = {}): ApprovalInContext {
  return {
    id: 'a1',
    kind: 'output',
    session_id: 's',
    task_id: null,
    state: 'pending',
    staged: { summary: 'Rain.', tone: 'kind' },
    input_schema: null,
    score: null,
    flags: [],
    digest: 'sha',
    assigned_to: null,
    expires_at: null,
    on_expiry: 'expire',
    decided_by: null,
    decided_at: null,
    decision: null,
    promotion: null,
    edited: null,
    reason: null,
    created_at: '2026-01-31T09:00:00Z',
    context: { contract: { type: 'entity', schema: SCHEMA }, criteria: CRITERIA },
    ...more,
  } as ApprovalInContext;
}

function detail(of: ApprovalInContext, props: object = {}) {
  const page = setUp();
  page.server.on(DECIDE, ({ body }) => answer({ ...of, state: 'approved', ...(body as object) }));
  const shown = page.show(<ApprovalDetail approval={of} undoMs={0} {...props} />);
  return { ...page, ...shown, sent: () => page.server.sent(DECIDE).map((call) => call.body) };
}

const press = (name: string | RegExp) => fireEvent.click(screen.getByRole('button', { name }));
const edit = (name: string, value: string) => fireEvent.change(screen.getByLabelText(name), { target: { value } });
const row = (name: RegExp | string) => screen.getByRole('rowheader', { name }).closest('tr') as HTMLElement;

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-01-31T09:30:00Z') });
});

describe('an approval with its context', () => {
  it('offers the options of the criteria with their marks, and blocks a blocked one at the field before it is sent', async () => {
    const { sent } = detail(approval());
    press('Edit');
    const options = within(screen.getByLabelText('tone')).getAllByRole('option');
    expect(options.map((option) => option.textContent)).toEqual(['kind', 'curt ⚑ flagged', 'cruel ⛔ blocked']);
    edit('tone', 'cruel');
    expect(within(row('tone')).getByRole('alert').textContent).toBe(
      '“cruel” is blocked by the criteria. Choose another.',
    );
    press('Approve');
    await pass();
    expect(sent()).toEqual([]);
    edit('tone', 'curt');
    press('Approve with edits');
    await pass();
    expect(sent()).toEqual([
      { decision: 'approve', modified_output: { summary: 'Rain.', tone: 'curt' }, digest: 'sha' },
    ]);
  });

  it('shows what it replaces by the names of the contract, and what stays', () => {
    const entity = {
      id: 'e',
      type_slug: 'place',
      title: 'Oban',
      fields: { report: 'Sun.', country: 'Scotland' },
      version: 3,
    };
    const contract = { type: 'entity', schema: SCHEMA, fields: { report: '/summary', tone: 'tone' } };
    detail(approval({ context: { contract, entity, criteria: CRITERIA } }));
    const cells = (name: string) =>
      within(row(name))
        .getAllByRole('cell')
        .map((cell) => cell.textContent);
    expect(cells('summary')).toEqual(['Sun.', '+proposed Rain.']);
    expect(cells('tone')).toEqual(['–', '+proposed kind']);
    expect(cells('country')).toEqual(['Scotland', '(unchanged)']);
  });

  it.each([
    [{ summary: 7, tone: 'kind' }, 'Its contract asks for a text.'],
    [{ summary: 'Rain.', tone: 'loud' }, 'Its contract knows only kind, curt, cruel.'],
    [{ summary: 'Rain.' }, 'Its contract asks for tone, which is missing.'],
  ])('says where the staged %j does not fit its contract', (staged, sentence) => {
    detail(approval({ staged }));
    expect(screen.getByText(sentence)).toBeDefined();
    press('Edit');
    expect(screen.getByLabelText('summary')).toBeDefined();
  });

  it.each([
    ['a schema that is a text', { contract: { type: 'entity', schema: 'x' }, criteria: null }],
    ['properties that are a list', { contract: { type: 'entity', schema: { properties: [1], required: 'x' } } }],
    ['criteria without options', { criteria: [{ slug: 'tone' }] }],
    ['a context that is a text', 'x'],
  ])('survives %s', (_name, context) => {
    detail(approval({ context }));
    press('Edit');
    expect((screen.getByLabelText('summary') as HTMLInputElement).value).toBe('Rain.');
  });

  it('that is decided shows what was carried out, and not what the entity has now', () => {
    const entity = { id: 'e', type_slug: 'place', title: 'Oban', fields: { tone: 'curt' }, version: 3 };
    const context = { contract: { type: 'entity', schema: SCHEMA }, criteria: CRITERIA, entity };
    detail(approval({ state: 'approved', edited: { summary: 'Rain.', tone: 'curt' }, context }));
    expect(screen.queryByRole('columnheader', { name: 'now' })).toBeNull();
    expect(row(/tone/).querySelector('.sdr-removed')?.textContent).toContain('kind');
    expect(row(/tone/).querySelector('.sdr-added')?.textContent).toContain('curt');
    expect(screen.queryByRole('button')).toBeNull();
  });

  it('of a promotion marks the fields that changed since it was staged', () => {
    const promotion = { entity_id: 'e', entity_type: 'place', is_new: false, version: 1, base: { summary: 'Sun.' } };
    const entity = { id: 'e', type_slug: 'place', title: null, fields: { summary: 'Snow.' }, version: 2 };
    detail(approval({ kind: 'promotion', promotion, staged: { summary: 'Rain.' }, context: { entity } }));
    expect(within(row('summary')).getByText('Changed since this was staged.')).toBeDefined();
    expect(within(row('summary')).getByText('Snow.')).toBeDefined();
  });
});

describe('a tool call', () => {
  const call = { id: 'c', name: 'send_mail', args: { to: 312, subject: 'hours' } };
  const tool = { name: 'send_mail', description: 'Sends a mail.', input_schema: null };

  it('is edited as JSON too, where keys are added and left out', async () => {
    const { sent } = detail(approval({ kind: 'tool', staged: call, context: { tool } }));
    expect(screen.getByText('Sends a mail.')).toBeDefined();
    press('Edit');
    edit('to', '12');
    press('JSON');
    expect(JSON.parse((screen.getByLabelText('Arguments as JSON') as HTMLTextAreaElement).value).to).toBe(12);
    edit('Arguments as JSON', '{"to": ');
    expect(screen.getByRole('alert').textContent).toContain('not JSON');
    edit('Arguments as JSON', '[1]');
    expect(screen.getByRole('alert').textContent).toContain('begin with {');
    press('Approve with edits');
    edit('Arguments as JSON', '{"to": 12, "cc": "ann"}');
    press('Fields');
    expect(row(/cc/).textContent).toContain('(added)');
    expect(row(/subject/).textContent).toContain('(left out)');
    expect(row(/to/).textContent).toContain('(edited)');
    press('Approve with edits');
    await pass();
    expect(sent()).toEqual([{ decision: 'approve', modified_args: { to: 12, cc: 'ann' }, digest: 'sha' }]);
  });
});

describe('a question', () => {
  const schema = {
    type: 'object',
    required: ['city'],
    properties: { city: { type: 'string', title: 'City' }, people: { type: 'integer' }, day: { enum: ['Mon', 'Tue'] } },
  };

  it('is answered by the fields of its schema, each by its type', async () => {
    const { server } = detail(approval({ kind: 'question', staged: { text: 'Where?', schema } }));
    server.on('POST /api/sessions/s/elicitation-reply', () => answer({ id: 's' }));
    press('Answer');
    expect(screen.getByRole('alert').textContent).toBe('This is asked for.');
    edit('City', 'Oban');
    edit('people', '3');
    edit('day', 'Tue');
    press('Answer');
    await pass();
    expect(server.sent('POST /api/sessions/s/elicitation-reply').map((call) => call.body)).toEqual([
      { reply: { city: 'Oban', people: 3, day: 'Tue' } },
    ]);
  });

  it('keeps its answer where the server refuses it', async () => {
    const { server } = detail(approval({ kind: 'question', staged: { text: 'Where?' } }));
    server.on('POST /api/sessions/s/elicitation-reply', () => refusal(503, 'unavailable'));
    edit('Where?', 'Oban');
    press('Answer');
    press('Answer');
    await pass();
    expect(server.sent('POST /api/sessions/s/elicitation-reply').length).toBe(1);
    expect(screen.getByRole('alert').textContent).toBe('refused: unavailable');
    expect((screen.getByLabelText('Where?') as HTMLTextAreaElement).value).toBe('Oban');
  });

  it('that is a step says why it was sent back', () => {
    const staged = {
      text: 'Read it',
      step: null,
      denied: { by: 'ann', reason: 'Too short.' },
      description: 'All of it.',
    };
    detail(approval({ kind: 'question', staged }));
    expect(screen.getByText('“Too short.”')).toBeDefined();
    expect(screen.getByText('All of it.')).toBeDefined();
    expect(screen.getByRole('button', { name: 'Mark as done' })).toBeDefined();
  });

  it('of a form leads to the form', () => {
    detail(approval({ kind: 'question', staged: { text: 'Fill it in', view_id: 'v 1' } }));
    expect(screen.getByRole('link', { name: 'open the form' }).getAttribute('href')).toBe('/views/v%201');
    expect(screen.queryByRole('textbox')).toBeNull();
  });

  it('can be declined with a reason', async () => {
    const { sent } = detail(approval({ kind: 'question', staged: { text: 'Where?' } }));
    press('Decline…');
    edit('Reason (the agent is told)', 'Ask Ben.');
    press('Reject');
    await pass();
    expect(sent()).toEqual([{ decision: 'deny', reason: 'Ask Ben.', digest: 'sha' }]);
  });
});

function Deciding({ of }: { of: ApprovalInContext }) {
  const outbox = useDecisionOutbox({});
  const decision = useOutboxDecision(outbox, of);
  return <ApprovalDetail approval={of} decision={decision} />;
}

describe('a decision that was refused', () => {
  it('names who decided, and how long ago', async () => {
    const { server } = detail(approval());
    const details = { decision: 'approve', decided_by: 'Ann' };
    server.on(DECIDE, () => refusal(409, 'already_decided', { details }));
    server.on('GET /api/approvals/a1', () =>
      answer(approval({ state: 'approved', decided_by: 'Ann', decided_at: '2026-01-31T09:29:50Z' })),
    );
    press('Reject…');
    press('Reject');
    await pass();
    expect(screen.getByRole('alert').textContent).toBe('Ann approved this 10 s ago.');
    expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull();
  });

  it('names the fields that changed', async () => {
    const { server } = detail(approval());
    server.on(DECIDE, () => refusal(409, 'stale_base', { details: { fields: ['summary', 'tone'] } }));
    press('Approve');
    await pass();
    expect(screen.getByRole('alert').textContent).toContain('summary, tone have changed since this was staged.');
    expect(screen.getByRole('button', { name: 'Approve' })).toBeDefined();
  });

  it('keeps the edits and its sentence for the time when the person comes back', async () => {
    const page = setUp();
    page.server.on(DECIDE, () => refusal(422, 'hard_blocked', { details: { dimension: 'summary', option: 'Snow.' } }));
    const shown = page.show(<Deciding key="here" of={approval()} />);
    press('Edit');
    edit('summary', 'Snow.');
    press('Approve with edits');
    await pass(5_100);
    expect(within(row(/summary/)).getByRole('alert').textContent).toContain('“Snow.” is blocked');
    expect(row(/summary/).textContent).toContain('(edited)');
    press('Edit');
    expect((screen.getByLabelText('summary') as HTMLInputElement).value).toBe('Snow.');
    shown.unmount();
  });
});

describe('an outbox', () => {
  it('holds several decisions, takes one back, and sends the others once when the page goes', async () => {
    const page = setUp();
    page.server.on(/POST \/api\/approvals\/.*/, () => answer(approval()));
    const { result, unmount } = page.hook(() => useDecisionOutbox({}));
    act(() => {
      for (const id of ['a', 'b', 'c']) result.current.decide(approval({ id }), { decision: 'approve' }, 5_000);
      result.current.decide(approval({ id: 'a' }), { decision: 'deny' }, 5_000);
      result.current.undo('b');
    });
    window.dispatchEvent(new Event('pagehide'));
    unmount();
    await pass(10_000);
    expect(
      page.server.calls.map(({ path, body, keepalive }) => [path, (body as { decision: string }).decision, keepalive]),
    ).toEqual([
      ['/api/approvals/a/decide', 'approve', true],
      ['/api/approvals/c/decide', 'approve', true],
    ]);
  });
});

describe('reading an approval', () => {
  it('brings it with its context', async () => {
    const page = setUp();
    page.server.on('GET /api/stream', () => new Promise<Response>(() => undefined));
    page.server.on('GET /api/approvals/a1', ({ query }) => {
      expect(query.get('expand')).toBe('context');
      return answer(approval({ context: { attempt: { number: 1, limit: 3 } } }));
    });
    const { result } = page.hook(() => useApproval('a1'));
    await pass();
    expect(result.current.data?.digest).toBe('sha');
    expect(result.current.data?.context?.attempt?.limit).toBe(3);
  });
});
