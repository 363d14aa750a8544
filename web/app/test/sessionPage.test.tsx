import type { Session, SessionEvent } from '@sederunt/react';
import { act, screen, waitFor, within } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { SignInProvider } from '../src/auth/SignInProvider.js';
import { DecisionsProvider } from '../src/decisions/DecisionsProvider.js';
import { Page } from '../src/pages/sessions/index.js';
import { PageFrameProvider, usePageFrame } from '../src/shell/pageFrame.js';
import { ANN, answer, fakeServer, refused, show } from './app.js';

const ME = { ...ANN, can: ['share', 'delete', 'decide'] };

function session(id: string, more: Partial<Record<keyof Session, unknown>> = {}): Session {
  return {
    id,
    title: `Title of ${id}`,
    session_type: 'agent',
    status: 'running',
    source: { kind: 'api' },
    inactive: false,
    is_anonymous: false,
    stop_requested: false,
    agent_slug: 'worker',
    user_id: null,
    task_id: null,
    entity_id: null,
    parent_id: null,
    retry_of: null,
    result: null,
    usage: { input_tokens: 12_000, output_tokens: 400, cost_micros: 31_000 },
    error_message: null,
    participants: [],
    last_sequence: 3,
    version: 1,
    created_at: '2026-11-18T09:00:00Z',
    started_at: '2026-11-18T09:00:00Z',
    completed_at: null,
    last_activity_at: '2026-11-18T09:00:00Z',
    ...more,
  } as unknown as Session;
}

function event(sequence: number, type: string, more: Partial<Record<keyof SessionEvent, unknown>> = {}) {
  return { session_id: 's', sequence, type, content: null, metadata: null, at: '2026-11-18T09:00:00Z', ...more };
}

function Bar() {
  const { title, setHeaderSlot } = usePageFrame();
  return (
    <header>
      <h1>{title.text}</h1>
      <div ref={setHeaderSlot} />
    </header>
  );
}

function open(path: string) {
  history.replaceState(null, '', path);
  return show(
    <SignInProvider>
      <DecisionsProvider>
        <PageFrameProvider>
          <Bar />
          <Page />
        </PageFrameProvider>
      </DecisionsProvider>
    </SignInProvider>,
  );
}

function server(rows: readonly Session[], events: readonly unknown[] = []) {
  const fake = fakeServer();
  fake.on('GET /api/me', () => answer(ME));
  fake.on('GET /api/agents', () => answer({ items: [{ slug: 'worker', name: 'Worker' }], next_cursor: null }));
  fake.on('GET /api/tasks', () => answer({ items: [], next_cursor: null }));
  fake.on('GET /api/sessions', () => answer({ items: rows, next_cursor: null }));
  for (const row of rows) {
    const path = `/api/sessions/${encodeURIComponent(row.id)}`;
    fake.on(`GET ${path}`, () => answer(row));
    fake.on(`GET ${path}/children`, () => answer({ items: [], next_cursor: null }));
    fake.on(`GET ${path}/events`, () =>
      answer({ events: [...events].reverse(), last_sequence: events.length, has_more: false, next_after: 0 }),
    );
  }
  return fake;
}

beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
});

describe('the list of sessions', () => {
  it('shows a row for each session, with its status in words', async () => {
    server([session('a'), session('b', { status: 'failed', title: ' ' })]);
    open('/sessions');
    const list = await screen.findByRole('list', { name: 'Sessions' });
    expect(
      within(list)
        .getAllByRole('link')
        .map((link) => link.getAttribute('href')),
    ).toEqual(['/sessions/a', '/sessions/b']);
    expect(within(list).getByText('Title of a')).toBeDefined();
    expect(within(list).getByText('failed')).toBeDefined();
    expect(screen.getByRole('button', { name: 'mine' })).toBeDefined();
  });

  it('says what is missing, and clears the filters', async () => {
    server([]);
    open('/sessions?status=failed&agent=gone');
    await screen.findByText('No sessions match. Clear the filters.');
    expect((screen.getByLabelText('Agent') as HTMLSelectElement).value).toBe('gone');
    await userEvent.click(screen.getByRole('button', { name: 'Clear the filters' }));
    await screen.findByText(/No sessions yet/);
    expect(location.search).toBe('');
  });

  it('writes a filter into the address, and searches once typing rests', async () => {
    const fake = server([session('a')]);
    open('/sessions');
    await screen.findByText('Title of a');
    await userEvent.selectOptions(screen.getByLabelText('Status'), 'failing');
    expect(location.search).toBe('?group=failing');
    const before = fake.sent('GET /api/sessions').length;
    await userEvent.type(screen.getByLabelText('Search sessions'), 'oak');
    await waitFor(() => expect(location.search).toBe('?q=oak&group=failing'));
    await waitFor(() => expect(fake.sent('GET /api/sessions').length).toBe(before + 1));
  });

  it('shows the sentence and the request of a refusal, and tries again', async () => {
    const fake = server([session('a')]);
    fake.on('GET /api/sessions', () => refused(403, 'denied'));
    open('/sessions');
    expect((await screen.findByRole('alert')).textContent).toContain('req-1');
    fake.on('GET /api/sessions', () => answer({ items: [session('a')], next_cursor: null }));
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
    await screen.findByText('Title of a');
  });

  it('reads no further by itself after a page that could not be read, and says why', async () => {
    class AlwaysInSight {
      readonly #tell: (entries: object[]) => void;
      constructor(tell: (entries: object[]) => void) {
        this.#tell = tell;
      }
      observe() {
        setTimeout(() => this.#tell([{ isIntersecting: true }]));
      }
      disconnect() {}
    }
    vi.stubGlobal('IntersectionObserver', AlwaysInSight);
    const fake = server([session('a')]);
    const asked = () => fake.sent('GET /api/sessions').length;
    let isMended = false;
    fake.on('GET /api/sessions', () => {
      if (asked() === 1) return answer({ items: [session('a')], next_cursor: 'c1' });
      return isMended ? answer({ items: [session('b')], next_cursor: null }) : refused(422, 'invalid');
    });
    open('/sessions');
    expect((await screen.findByRole('alert')).textContent).toContain('Refused: invalid');
    await new Promise((done) => setTimeout(done, 200));
    expect(asked()).toBe(2);
    isMended = true;
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }));
    await screen.findByText('Title of b');
    expect(screen.getByText('Title of a')).toBeDefined();
  });

  it('has its filters and the focus on the row again after a session was left by Escape', async () => {
    const rows = [session('a'), session('b')];
    server(rows);
    open('/sessions?group=failing&q=title');
    const row = await screen.findByRole('link', { name: /Title of b/ });
    row.focus();
    await userEvent.click(row);
    await screen.findByRole('heading', { name: 'Title of b' });
    await userEvent.keyboard('{Escape}');
    const again = await screen.findByRole('link', { name: /Title of b/ });
    expect(location.pathname + location.search).toBe('/sessions?group=failing&q=title');
    await waitFor(() => expect(document.activeElement).toBe(again));
  });

  it('leads from a message to its place in the transcript', async () => {
    const fake = server([]);
    fake.on('GET /api/search', () =>
      answer({ items: [{ session_id: 'a:b', sequence: 7, snippet: 'ten boxes' }], memories: [], next_cursor: null }),
    );
    open('/sessions?q=boxes&in=messages');
    const hit = await screen.findByRole('link', { name: /ten boxes/ });
    expect(hit.getAttribute('href')).toBe('/sessions/a%3Ab?seq=7');
  });
});

describe('the page of a session', () => {
  it('has its facts, and opens also where the id has signs of paths in it', async () => {
    server([session('a:b/50%', { status: 'completed', completed_at: '2026-11-18T09:04:10Z' })]);
    open(`/sessions/${encodeURIComponent('a:b/50%')}?tab=nonsense&seq=-1&show=x`);
    await screen.findByRole('heading', { name: 'Title of a:b/50%' });
    const facts = await screen.findByRole('list', { name: 'Facts' });
    expect(facts.textContent).toContain('took 4 min');
    expect(facts.textContent).toContain('12.4k tokens');
    expect(facts.textContent).toContain('0.031 $');
    expect(screen.getByRole('tab', { name: 'Transcript' }).getAttribute('aria-selected')).toBe('true');
    await userEvent.click(screen.getByRole('tab', { name: 'Result' }));
    expect(location.search).toBe('?tab=result');
    expect(location.pathname).toBe(`/sessions/${encodeURIComponent('a:b/50%')}`);
    await screen.findByText('This session ended without a result.');
  });

  it('says that there is no such session, or what the server refuses', async () => {
    const fake = server([]);
    open('/sessions/gone');
    expect((await screen.findByRole('alert')).textContent).toContain(
      'There is no such session, or it is not yours to see.',
    );
    expect(screen.getByRole('link', { name: 'Back to the sessions' })).toBeDefined();
    fake.on('GET /api/sessions/closed', () => refused(403, 'denied'));
    act(() => history.pushState(null, '', '/sessions/closed'));
    await waitFor(() => expect(screen.getByRole('alert').textContent).toContain('Refused: denied'));
    expect(screen.queryByRole('button', { name: 'Try again' })).toBeNull();
  });

  it('that is deleted while it is open says so, and leads back', async () => {
    const fake = server([session('a'), session('b')]);
    open('/sessions/a');
    await screen.findByRole('heading', { name: 'Title of a' });
    await waitFor(() => expect(fake.hintStreams).toHaveLength(1));
    const gone = (id: string) => ({ id, status: 'running', last_sequence: 3, row_changed: true, deleted: true });
    fake.hint('sessions', { sessions: [gone('b')] });
    await screen.findByRole('tab', { name: 'Transcript' });
    fake.hint('sessions', { sessions: [gone('a')] });
    await screen.findByText('This session was deleted.');
    expect(screen.queryByRole('tab')).toBeNull();
    expect(screen.getByRole('link', { name: 'Back to the sessions' })).toBeDefined();
  });

  it('that is no longer found says so, even where its hint was missed', async () => {
    const fake = server([session('a')]);
    open('/sessions/a');
    await screen.findByRole('heading', { name: 'Title of a' });
    await waitFor(() => expect(fake.hintStreams).toHaveLength(1));
    fake.on('GET /api/sessions/a', () => refused(404, 'not_found'));
    fake.hint('reset', {});
    await screen.findByText('This session was deleted.');
  });

  it('says how long the server asks to wait', async () => {
    const fake = server([]);
    fake.on('GET /api/sessions/a', () => refused(429, 'rate_limited', { 'retry-after': '60' }));
    open('/sessions/a');
    expect((await screen.findByRole('alert')).textContent).toContain('Refused: rate_limited. Try again in 1 min.');
    expect(fake.sent('GET /api/sessions/a')).toHaveLength(1);
  });

  it('asks before a run is stopped, and sends the stop once', async () => {
    const fake = server([session('a')]);
    fake.on('POST /api/sessions/a/stop', () => answer(session('a', { stop_requested: true })));
    open('/sessions/a');
    await userEvent.click(await screen.findByRole('button', { name: 'Stop' }));
    const dialog = await screen.findByRole('alertdialog');
    expect(dialog.textContent).toContain('Stop “Title of a”?');
    expect(fake.sent('POST /api/sessions/a/stop')).toHaveLength(0);
    await userEvent.click(within(dialog).getByRole('button', { name: 'Stop' }));
    await screen.findByText('Asked it to stop.');
    const [call] = fake.sent('POST /api/sessions/a/stop');
    expect(call?.headers.get('idempotency-key')).toBeTruthy();
  });

  it('stops a turn of a talk without asking', async () => {
    const fake = server([session('a', { session_type: 'mixed' })]);
    fake.on('POST /api/sessions/a/stop', () => answer(session('a', { session_type: 'mixed', status: 'idle' })));
    open('/sessions/a');
    await userEvent.click(await screen.findByRole('button', { name: 'Stop' }));
    await screen.findByText('Stopped this turn.');
    expect(screen.queryByRole('alertdialog')).toBeNull();
  });

  it('forks at the newest event, and goes to the copy', async () => {
    const fake = server([session('a'), session('copy')]);
    fake.on('POST /api/sessions/a/fork', () => answer(session('copy'), 201));
    open('/sessions/a');
    await userEvent.click(await screen.findByRole('button', { name: 'Fork' }));
    await screen.findByRole('heading', { name: 'Title of copy' });
    expect(fake.sent('POST /api/sessions/a/fork').map((call) => call.body)).toEqual([{ at_sequence: 3 }]);
    expect(location.pathname).toBe('/sessions/copy');
  });

  it('says why a retry is refused, and stays', async () => {
    const fake = server([session('a', { status: 'failed', error_message: 'the model refused' })]);
    fake.on('POST /api/sessions/a/retry', () => refused(409, 'retry_limit'));
    open('/sessions/a');
    await userEvent.click(await screen.findByRole('button', { name: 'Retry' }));
    await screen.findByText('refused: retry_limit (id req-1)');
    expect(screen.getByText(/the model refused/)).toBeDefined();
  });

  it('shows the secret of a share link once, keeps it out of the list, and revokes', async () => {
    const fake = server([session('a:b')]);
    const links = [
      { id: 'l1', access: 'read', created_by: 'ann', expires_at: '2999-01-01T00:00:00Z', revoked_at: null },
    ];
    fake.on('GET /api/shares', () => answer({ items: links, next_cursor: null }));
    fake.on('POST /api/sessions/a%3Ab/share', () => answer({ ...links[0], token: 's3cret', url: 'x' }, 201));
    fake.on('DELETE /api/shares/l1', () => {
      links.length = 0;
      return answer(undefined, 204);
    });
    open('/sessions/a%3Ab');
    await userEvent.click(await screen.findByRole('button', { name: 'Share…' }));
    await userEvent.selectOptions(await screen.findByLabelText('It ends after'), 'A day');
    await userEvent.click(screen.getByRole('button', { name: 'Make a link' }));
    const made = (await screen.findByLabelText('The new link')) as HTMLInputElement;
    expect(made.value).toBe(`${location.origin}/shared/a%3Ab?share=s3cret`);
    expect(fake.sent('POST /api/sessions/a%3Ab/share')[0]?.body).toEqual({ access: 'read', expires_in: 86_400 });
    await userEvent.click(screen.getByRole('button', { name: 'Revoke' }));
    await screen.findByText('None.');
    await userEvent.keyboard('{Escape}');
    await userEvent.click(screen.getByRole('button', { name: 'Share…' }));
    await screen.findByText('None.');
    expect(screen.queryByLabelText('The new link')).toBeNull();
  });

  it('names what goes with it before it deletes, and returns to the list', async () => {
    const fake = server([session('a')]);
    fake.on('DELETE /api/sessions/a', () => answer(undefined, 204));
    open('/sessions/a');
    await userEvent.click(await screen.findByRole('button', { name: 'More actions' }));
    await userEvent.click(await screen.findByRole('menuitem', { name: 'Delete…' }));
    const dialog = await screen.findByRole('alertdialog');
    expect(dialog.textContent).toContain('All of its 3 events');
    await userEvent.click(within(dialog).getByRole('button', { name: 'Delete' }));
    await waitFor(() => expect(location.pathname).toBe('/sessions'));
  });

  it('shows children without places as a list, and a parent that is gone', async () => {
    const fake = server([session('a', { parent_id: 'gone' })]);
    fake.on('GET /api/sessions/a/children', () => answer({ items: [session('kid')], next_cursor: null }));
    open('/sessions/a?tab=steps');
    const list = await screen.findByRole('list', { name: 'Steps' });
    expect(within(list).getByRole('link').getAttribute('href')).toBe('/sessions/kid');
    expect(screen.queryByRole('region', { name: 'Graph of steps' })).toBeNull();
    await screen.findByText('a step of a session that is gone or not yours to see');
  });

  it('shows a circle of steps, and opens a step from the graph', async () => {
    const fake = server([session('a')]);
    const kid = (key: string, after: string) => ({
      ...session(key),
      step: { key, name: `Step ${key}`, depends_on: [after] },
    });
    fake.on('GET /api/sessions/a/children', () => answer({ items: [kid('x', 'y'), kid('y', 'x')], next_cursor: null }));
    open('/sessions/a?tab=steps');
    const graph = await screen.findByRole('region', { name: 'Graph of steps' });
    expect(screen.getByText(/wait for each other in a circle/).textContent).toContain('Step x');
    const links = within(graph).getAllByRole('link');
    expect(links.map((link) => link.getAttribute('href')).sort()).toEqual(['/sessions/x', '/sessions/y']);
  });

  it('draws a timeline of whatever the log holds, and leads from a bar to its event', async () => {
    server(
      [session('a', { status: 'completed' })],
      [
        event(1, 'agent.tool_call', {
          metadata: { tool_call_id: 'c', tool_name: 'find_invoice' },
          content: 'no array',
        }),
        event(2, 'agent.tool_result', { metadata: { tool_call_id: 'c' }, at: '2026-11-18T09:00:02Z' }),
        event(3, 'never.seen', { at: 'no time', metadata: 'no object' }),
      ],
    );
    open('/sessions/a?tab=timeline');
    await userEvent.click(await screen.findByRole('button', { name: /call find_invoice, 2.0 s/ }));
    expect(location.search).toBe('?seq=1');
  });

  it('shows the fields that a completed run has written', async () => {
    const fake = server([
      session('a', {
        status: 'completed',
        task_id: 't',
        entity_id: 'oban',
        result: { report: { title: '**Rain**' }, x: 1 },
      }),
    ]);
    fake.on('GET /api/tasks/t', () =>
      answer({ id: 't', name: 'T', output: { type: 'entity', fields: { headline: 'report.title' } } }),
    );
    fake.on('GET /api/approvals', () =>
      answer({
        items: [{ id: 'p', kind: 'output', state: 'approved', decided_by: 'ann', decided_at: null, promotion: null }],
        next_cursor: null,
      }),
    );
    open('/sessions/a?tab=result');
    const table = await screen.findByRole('table');
    await waitFor(() => expect(table.textContent).toMatch(/oban.*headline.*Rain.*ann/));
  });
});
