import type { SessionEvent } from '@sederunt/react';
import { fireEvent, screen, waitFor, within } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { SignInProvider } from '../src/auth/SignInProvider.js';
import { DecisionsProvider } from '../src/decisions/DecisionsProvider.js';
import { Page } from '../src/pages/chat/index.js';
import { PageFrameProvider, usePageFrame } from '../src/shell/pageFrame.js';
import { ANN, answer, fakeServer, refused, type SeenCall, show } from './app.js';
import { approval } from './deciding.js';

const NOBODY = { ...ANN, user: null, auth: 'local' };
const ENDED = {
  finalized: true,
  summary: null,
  themes: [],
  turn_count: 1,
  open_loops: [],
  resolved_threads: [],
  detail: null,
};
const THREAD = 'web-abcd1234';

function session(more: object = {}) {
  return {
    id: THREAD,
    title: 'The move',
    description: null,
    status: 'idle',
    inactive: false,
    task_id: null,
    memory_mode: 'local',
    last_message_preview: null,
    last_activity_at: '2026-01-31T09:30:00Z',
    source: { kind: 'web' },
    ...more,
  };
}

let sequence = 0;
function event(type: string, more: object = {}): SessionEvent {
  sequence += 1;
  const at = '2026-01-31T09:30:00Z';
  return {
    sequence,
    type,
    role: 'user',
    content: null,
    metadata: null,
    turn: null,
    author: null,
    at,
    ...more,
  } as SessionEvent;
}
const text = (words: string) => [{ type: 'text', text: words }];
const says = (words: string) => event('user.message', { content: text(words) });
const replies = (words: string, more: object = {}) => event('agent.message', { content: text(words), ...more });
const started = () => event('session.sitting_started', { metadata: { sitting: 1 } });
const asked = () => event('session.sitting_ended', { metadata: { reason: 'asked', turn_count: 1 } });

/** A chat in memory. `append` adds to its log and tells the open stream. */
function chatServer({ me = NOBODY as object, row = {}, exists = true } = {}) {
  const server = fakeServer();
  const state = {
    me,
    events: [] as SessionEvent[],
    streams: [] as ReadableStreamDefaultController<Uint8Array>[],
    exists,
  };
  const on = (name: string, body: (call: SeenCall) => unknown) => server.on(name, (call) => answer(body(call)));
  const path = `/api/sessions/${THREAD}`;
  on('GET /api/me', () => state.me);
  on('GET /api/sessions', () => ({ items: state.exists ? [session(row)] : [], next_cursor: null }));
  server.on(`GET ${path}`, () => (state.exists ? answer(session(row)) : refused(404, 'not_found')));
  on(`GET ${path}/events`, () => {
    const last = state.events.at(-1)?.sequence ?? 0;
    return { events: [...state.events].reverse(), has_more: false, last_sequence: last, next_after: 0 };
  });
  server.on(`GET ${path}/stream`, () => {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void state.streams.push(controller) });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  });
  on(`GET /api/threads/${THREAD}/ratings`, () => ({ items: [], counts: {} }));
  on(`POST /api/threads/${THREAD}/feedback`, () => ({ recorded: true, follow_up: null }));
  return {
    ...server,
    state,
    append: (...events: SessionEvent[]) => {
      state.events.push(...events);
      for (const one of events) {
        const bytes = new TextEncoder().encode(`id: ${one.sequence}\ndata: ${JSON.stringify(one)}\n\n`);
        for (const stream of state.streams) stream.enqueue(bytes);
      }
    },
  };
}

/** As the shell has it: a place for what the page puts beside its title. */
function Frame() {
  const { setHeaderSlot, title } = usePageFrame();
  return (
    <>
      <h1>{title.text}</h1>
      <div ref={setHeaderSlot} />
      <Page />
    </>
  );
}

function open(path: string) {
  history.replaceState(null, '', path);
  return show(
    <SignInProvider>
      <DecisionsProvider>
        <PageFrameProvider>
          <Frame />
        </PageFrameProvider>
      </DecisionsProvider>
    </SignInProvider>,
  );
}

function composer(): Promise<HTMLTextAreaElement> {
  return screen.findByLabelText<HTMLTextAreaElement>('Message', { selector: 'textarea' });
}

async function write(words: string) {
  const field = await composer();
  fireEvent.change(field, { target: { value: field.value + words } });
  fireEvent.keyDown(field, { key: 'Enter', ctrlKey: true });
}

beforeEach(() => {
  sequence = 0;
});

/** Answers of a server that opens any chat, and keeps the call for the reply open. */
function opensAny(server: ReturnType<typeof fakeServer>, reply: () => Response) {
  server.on('POST /api/sessions', (call) => answer(session(call.body as object), 201));
  server.on('POST /api/chat', reply);
}

describe('a new chat', () => {
  it.each([
    ['without sign-in as web-user', NOBODY, undefined, 'web-user'],
    ['without sign-in under the name that was given', NOBODY, 'ann', 'ann'],
    ['signed in without naming a user', ANN, 'ann', undefined],
  ])('is opened and sent %s', async (_, me, name, userId) => {
    const server = chatServer({ me, exists: false });
    opensAny(server, () => refused(503, 'unavailable'));
    const { setSpeaker } = await import('../src/pages/chat/speaker.js');
    setSpeaker(name ?? '');
    open('/chat');
    await write('hello');
    await waitFor(() => expect(server.sent('POST /api/chat')).toHaveLength(1));
    expect(location.pathname).toMatch(/^\/chat\/web-[0-9a-z]{8}$/);
    const thread = location.pathname.slice('/chat/'.length);
    expect(server.sent('POST /api/sessions')[0]?.body).toEqual({ id: thread, session_type: 'mixed' });
    const [call] = server.sent('POST /api/chat');
    expect(call?.body).toEqual({
      message: 'hello',
      thread_id: thread,
      ...(userId === undefined ? {} : { user_id: userId }),
    });
    expect(call?.headers.get('idempotency-key')).toMatch(/^[0-9a-f]{32}$/);
    setSpeaker('');
  });

  it('that is incognito names no user, and leaves none of its text in the browser', async () => {
    const server = chatServer({ exists: false });
    opensAny(server, () => refused(503, 'unavailable'));
    open('/chat');
    fireEvent.change(await composer(), { target: { value: 'secret ' } });
    expect(JSON.stringify({ ...sessionStorage })).toContain('secret');
    await userEvent.click(screen.getByRole('switch', { name: 'Incognito' }));
    expect(JSON.stringify({ ...sessionStorage })).not.toContain('secret');
    await write('plan');
    await waitFor(() => expect(server.sent('POST /api/chat')).toHaveLength(1));
    expect(server.sent('POST /api/sessions')[0]?.body).toMatchObject({ memory_mode: 'incognito' });
    expect(server.sent('POST /api/chat')[0]?.body).not.toHaveProperty('user_id');
    expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain('secret');
  });
});

describe('a message', () => {
  it('leaves the outbox when the log has it, and is on the screen once', async () => {
    const server = chatServer();
    server.on('POST /api/chat', () => new Response(new ReadableStream()));
    open(`/chat/${THREAD}`);
    await write('hello');
    await screen.findByText('Sending…');
    await waitFor(() => expect(server.state.streams).toHaveLength(1));
    server.append(started(), says('hello'));
    await waitFor(() => expect(screen.queryByText('Sending…')).toBeNull());
    expect(screen.getAllByText('hello')).toHaveLength(1);
    expect(JSON.stringify({ ...sessionStorage })).not.toContain('hello');
  });

  it.each([
    [413, 'too_large', {}],
    [429, 'rate_limited', { 'retry-after': '30' }],
    [503, 'unavailable', {}],
  ])(
    'that is refused with %i shows the sentence, and is sent again under the same key',
    async (status, code, headers) => {
      const server = chatServer();
      server.on('POST /api/chat', () => refused(status, code, headers as Record<string, string>));
      open(`/chat/${THREAD}`);
      await write('hello');
      await screen.findByText(`Not sent: refused: ${code}`);
      const again = screen.getByRole<HTMLButtonElement>('button', { name: /Send again/ });
      expect(again.disabled).toBe(status === 429);
      if (again.disabled) return;
      await userEvent.click(again);
      await waitFor(() => expect(server.sent('POST /api/chat')).toHaveLength(2));
      const keys = server.sent('POST /api/chat').map((call) => call.headers.get('idempotency-key'));
      expect(new Set(keys).size).toBe(1);
    },
  );

  it('that was refused can be taken back into the composer', async () => {
    const server = chatServer();
    server.on('POST /api/chat', () => refused(413, 'too_large'));
    open(`/chat/${THREAD}`);
    await write('much too long');
    await userEvent.click(await screen.findByRole('button', { name: 'Edit' }));
    expect((await composer()).value).toBe('much too long');
    expect(screen.queryByText(/Not sent/)).toBeNull();
  });

  it('is kept while signed out, and sent once after signing in again', async () => {
    const server = chatServer({ me: ANN });
    let isSignedIn = true;
    server.on('GET /auth/config', () => answer({ mode: 'keys', version: '0', sign_in: ['key'] }));
    server.on('POST /auth/session', () => {
      isSignedIn = true;
      return answer(undefined, 204);
    });
    server.on('POST /api/chat', () => (isSignedIn ? answer({}) : refused(401, 'unauthorized')));
    open(`/chat/${THREAD}`);
    await composer();
    isSignedIn = false;
    await write('half a thought');
    await screen.findByRole('dialog', { name: 'Signed out. Sign in again.' });
    expect(JSON.stringify({ ...sessionStorage })).toContain('half a thought');
    await userEvent.type(await screen.findByLabelText('Key'), 'sdr_again{Enter}');
    await waitFor(() => expect(screen.queryByText('Sending…')).toBeNull());
    const sent = server.sent('POST /api/chat');
    expect(sent.map((call) => call.headers.get('idempotency-key'))).toEqual([
      sent[0]?.headers.get('idempotency-key'),
      sent[0]?.headers.get('idempotency-key'),
    ]);
    expect(JSON.stringify({ ...sessionStorage })).not.toContain('half a thought');
  });

  it('that was on its way when the page was reloaded waits there, and goes out under its old key', async () => {
    const server = chatServer();
    server.on('POST /api/chat', () => refused(503, 'unavailable'));
    const page = open(`/chat/${THREAD}`);
    await write('hello');
    await screen.findByText(/Not sent:/);
    page.unmount();
    open(`/chat/${THREAD}`);
    await screen.findByText('Not sent before the page was loaded again.');
    await userEvent.click(screen.getByRole('button', { name: 'Send again' }));
    await waitFor(() => expect(server.sent('POST /api/chat')).toHaveLength(2));
    const keys = server.sent('POST /api/chat').map((call) => call.headers.get('idempotency-key'));
    expect(new Set(keys).size).toBe(1);
  });

  it('that the server had taken before a reload is not offered again', async () => {
    const server = chatServer();
    server.on('POST /api/chat', () => refused(503, 'unavailable'));
    const page = open(`/chat/${THREAD}`);
    await write('hello');
    await screen.findByText(/Not sent:/);
    page.unmount();
    server.append(started(), says('hello'));
    open(`/chat/${THREAD}`);
    await screen.findByText('hello');
    await waitFor(() => expect(screen.queryByText(/Not sent/)).toBeNull());
    expect(screen.getAllByText('hello')).toHaveLength(1);
  });

  it('that is being written is there after a reload', async () => {
    chatServer();
    const page = open(`/chat/${THREAD}`);
    fireEvent.change(await composer(), { target: { value: 'not done' } });
    page.unmount();
    open(`/chat/${THREAD}`);
    expect((await composer()).value).toBe('not done');
  });
});

describe('while a reply is written', () => {
  const running = () => event('session.status_change', { turn: 1, metadata: { to: 'running' } });

  async function choose(mode: RegExp) {
    await userEvent.click(await screen.findByRole('button', { name: /While a reply is written/ }));
    await userEvent.click(await screen.findByRole('menuitem', { name: mode }));
  }

  it('a message waits by default', async () => {
    const server = chatServer();
    server.append(says('one'), running());
    server.on('POST /api/chat', () => answer({}));
    open(`/chat/${THREAD}`);
    await write('two');
    await waitFor(() => expect(server.sent('POST /api/chat')[0]?.body).toMatchObject({ message: 'two' }));
  });

  it('a message that steers goes to the running turn', async () => {
    const server = chatServer();
    server.append(says('one'), running());
    server.on(`POST /api/sessions/${THREAD}/messages`, () => answer({}, 202));
    open(`/chat/${THREAD}`);
    await choose(/^Steer/);
    await write('shorter');
    const name = `POST /api/sessions/${THREAD}/messages`;
    await waitFor(() => expect(server.sent(name)[0]?.body).toEqual({ text: 'shorter', on_busy: 'steer' }));
  });

  it('a message that interrupts stops the reply first where the page names the user', async () => {
    const server = chatServer();
    server.append(says('one'), running());
    server.on(`POST /api/sessions/${THREAD}/stop`, () => answer(session()));
    server.on('POST /api/chat', () => answer({}));
    open(`/chat/${THREAD}`);
    await choose(/^Interrupt/);
    await write('wait');
    await waitFor(() => expect(server.sent('POST /api/chat')).toHaveLength(1));
    const names = server.calls.map((call) => call.name).filter((name) => name.startsWith('POST'));
    expect(names).toEqual([`POST /api/sessions/${THREAD}/stop`, 'POST /api/chat']);
  });

  it('Stop stops it, and a finished reply is announced once', async () => {
    const server = chatServer();
    server.append(says('one'), running());
    server.on(`POST /api/sessions/${THREAD}/stop`, () => answer(session()));
    const page = open(`/chat/${THREAD}`);
    await userEvent.click(await screen.findByRole('button', { name: 'Stop' }));
    await waitFor(() => expect(server.sent(`POST /api/sessions/${THREAD}/stop`)).toHaveLength(1));
    await waitFor(() => expect(server.state.streams).toHaveLength(1));
    server.append(replies('half', { turn: 1, metadata: { interrupted: true } }));
    await waitFor(() => expect(page.container.querySelector('p[aria-live]')?.textContent).toBe('Reply: half'));
  });
});

describe('a call that waits for permission', () => {
  const waits = () => [
    event('session.status_change', { metadata: { from: 'running', to: 'awaiting_tool' } }),
    event('session.waiting_approval', { metadata: { approval_id: 'p', kind: 'tool' } }),
  ];

  function asking(can: readonly string[], more: object = {}) {
    const server = chatServer({ me: { ...ANN, can }, row: { status: 'awaiting_tool' } });
    server.append(says('send it'));
    server.on('GET /api/approvals/p', () => answer(approval('p', more)));
    server.on('POST /api/approvals/p/decide', () => answer(approval('p', { state: 'approved' })));
    return server;
  }

  it('is told to screen readers, and decided by keys with a reason', async () => {
    const server = asking(['decide']);
    const page = open(`/chat/${THREAD}`);
    await screen.findByText('send it');
    await waitFor(() => expect(server.state.streams).toHaveLength(1));
    server.append(...waits());
    await screen.findByRole('region', { name: 'Wants your permission' });
    const spoken = page.container.querySelector('p[aria-live]');
    await waitFor(() => expect(spoken?.textContent).toBe('The agent wants your permission.'));
    await screen.findByRole('button', { name: /^Reject/ });
    fireEvent.keyDown(document.body, { key: 'r' });
    const reason = await screen.findByLabelText(/^Reason/);
    await waitFor(() => expect(document.activeElement).toBe(reason));
    expect(screen.getByRole('button', { name: 'Not now.' })).toBeDefined();
    await userEvent.type(reason, 'Too many people.');
    fireEvent.keyDown(reason, { key: 'Enter', ctrlKey: true });
    expect((await screen.findAllByRole('button', { name: /^Undo/ })).length).toBeGreaterThan(0);
    expect(server.sent('POST /api/approvals/p/decide')).toEqual([]);
  });

  it('is decided at once where it could not be taken back in time', async () => {
    const server = asking(['decide'], { expires_at: new Date(Date.now() + 10_000).toISOString() });
    server.append(...waits());
    open(`/chat/${THREAD}`);
    await screen.findByRole('button', { name: /^Approve/ });
    fireEvent.keyDown(document.body, { key: 'a' });
    await waitFor(() =>
      expect(server.sent('POST /api/approvals/p/decide')[0]?.body).toEqual({ decision: 'approve', digest: 'digest-p' }),
    );
  });

  it('has no buttons for those who decide nothing', async () => {
    const server = asking([]);
    server.append(...waits());
    open(`/chat/${THREAD}`);
    await screen.findByText('send_mail');
    expect(screen.queryByRole('button', { name: /^(Approve|Reject|Edit)/ })).toBeNull();
    fireEvent.keyDown(document.body, { key: 'a' });
    expect(server.sent('POST /api/approvals/p/decide')).toEqual([]);
  });
});

describe('the end of a sitting', () => {
  it('is only suggested, until the person presses it', async () => {
    const server = chatServer();
    server.append(
      started(),
      says('bye'),
      replies('Take care.', { metadata: { session_action: 'suggest_end_session' } }),
    );
    server.on(`POST /api/threads/${THREAD}/end`, () => answer(ENDED));
    open(`/chat/${THREAD}`);
    const offer = await screen.findByText(/End here\?/);
    expect(server.calls.filter((call) => call.name.startsWith('POST'))).toEqual([]);
    await userEvent.click(within(offer).getByRole('button', { name: 'End' }));
    await waitFor(() =>
      expect(server.sent(`POST /api/threads/${THREAD}/end`)[0]?.body).toMatchObject({
        source: 'web_end',
        feedback: null,
      }),
    );
  });

  it.each([
    ['y', 'positive', 'You said: it was good.'],
    ['n', 'negative', 'You said: it was not good.'],
    ['s', 'skip', 'Not rated.'],
  ])('is rated by %s, once', async (key, feedback, words) => {
    const server = chatServer();
    server.append(started(), says('a'), replies('b'), asked());
    open(`/chat/${THREAD}`);
    await screen.findByText('How was it?');
    fireEvent.keyDown(document.body, { key });
    await screen.findByText(words);
    fireEvent.keyDown(document.body, { key });
    const name = `POST /api/threads/${THREAD}/feedback`;
    expect(server.sent(name).map((call) => call.body)).toEqual([{ feedback, source: 'web_end', modality: 'text' }]);
  });

  it('takes more words after a rating, and asks again where they say too little', async () => {
    const server = chatServer();
    const name = `POST /api/threads/${THREAD}/feedback`;
    server.append(started(), says('a'), replies('b'), asked());
    server.on(name, (call) => {
      const { comment } = call.body as { comment?: string };
      if (comment === undefined) return answer({ recorded: true });
      const follow_up =
        comment === 'meh' ? { status: 'clarification_required', prompt: 'What went wrong?' } : { status: 'accepted' };
      return answer({ recorded: false, follow_up });
    });
    open(`/chat/${THREAD}`);
    await userEvent.click(await screen.findByRole('button', { name: /Not good/ }));
    await userEvent.type(await screen.findByLabelText('Anything to add?'), 'meh');
    await userEvent.click(screen.getByRole('button', { name: 'Add' }));
    await userEvent.type(await screen.findByLabelText('What went wrong?'), ', too long');
    await userEvent.click(screen.getByRole('button', { name: 'Add' }));
    await screen.findByText('Thank you. It is noted, and agents learn from it.');
  });

  it('that was rated before it ended is not asked for again, and one before it says nothing', async () => {
    const at = (minute: number) => ({ at: `2026-01-31T09:${minute}:00Z` });
    const server = chatServer();
    const first = event('session.sitting_started', { metadata: { sitting: 1 }, ...at(10) });
    server.append(
      first,
      says('a'),
      event('session.sitting_ended', { metadata: { reason: 'asked', turn_count: 1 }, ...at(11) }),
    );
    server.append(event('session.sitting_started', { metadata: { sitting: 2 }, ...at(20) }), says('b'));
    server.append(event('session.sitting_ended', { metadata: { reason: 'asked', turn_count: 1 }, ...at(25) }));
    const rated = (minute: number, label: string) => ({ label, recorded_at: at(minute).at });
    let items = [rated(12, 'negative')];
    server.on(`GET /api/threads/${THREAD}/ratings`, () => answer({ items, counts: {} }));
    const page = open(`/chat/${THREAD}`);
    await screen.findByText('How was it?');
    page.unmount();
    items = [rated(12, 'negative'), rated(24, 'positive')];
    open(`/chat/${THREAD}`);
    await screen.findByText('You said: it was good.');
  });

  it('that another tab rated says so', async () => {
    const server = chatServer();
    server.append(started(), says('a'), replies('b'), asked());
    server.on(`POST /api/threads/${THREAD}/feedback`, () => answer({ recorded: false }));
    open(`/chat/${THREAD}`);
    await userEvent.click(await screen.findByRole('button', { name: 'Good' }));
    await screen.findByText('This sitting was rated already.');
  });

  it('that another tab ended first is told, and shows the card of the log', async () => {
    const server = chatServer();
    server.append(started(), says('a'), replies('b'));
    server.on(`POST /api/threads/${THREAD}/end`, () => {
      server.append(asked());
      return answer({ ...ENDED, finalized: false, detail: 'there is no open sitting to end' });
    });
    open(`/chat/${THREAD}`);
    await userEvent.click(await screen.findByRole('button', { name: 'End' }));
    await screen.findByText('There is no open sitting to end.');
    await screen.findByRole('region', { name: 'End of the sitting' });
  });

  it('after words of distress shows who helps, and asks for no rating', async () => {
    const server = chatServer();
    const crisis = event('session.turn', { turn: 2, metadata: { state: { crisis: { level: 3 } } } });
    server.append(started(), says('a'), replies('Call.\n\n- Samaritans: 116 123', { turn: 2 }), crisis, asked());
    open(`/chat/${THREAD}`);
    const card = await screen.findByRole('region', { name: 'End of the sitting' });
    expect(
      within(card)
        .getByRole('link', { name: /Samaritans/ })
        .getAttribute('href'),
    ).toBe('tel:116123');
    expect(screen.queryByText('How was it?')).toBeNull();
    fireEvent.keyDown(document.body, { key: 'y' });
    expect(server.sent(`POST /api/threads/${THREAD}/feedback`)).toEqual([]);
  });

  it('is followed by the same chat or a new one', async () => {
    const server = chatServer();
    server.append(started(), says('a'), replies('b'), asked());
    open(`/chat/${THREAD}`);
    await userEvent.click(await screen.findByRole('button', { name: 'Continue this' }));
    expect(document.activeElement).toBe(await composer());
    fireEvent.keyDown(document.body, { key: 'c' });
    await waitFor(() => expect(location.pathname).toBe('/chat'));
  });
});

describe('the page', () => {
  it('says what the server says of a chat that is not there, and offers a new one', async () => {
    chatServer({ exists: false });
    open('/chat/gone');
    expect((await screen.findByRole('alert')).textContent).toContain('Refused: not_found.');
    await userEvent.click(within(screen.getByRole('alert')).getByRole('button', { name: 'New chat' }));
    await screen.findByText('What is on your mind?');
  });

  it('leaves out people’s own work and runs of tasks from the list', async () => {
    const server = chatServer();
    const items = [
      session(),
      session({ id: 'h', title: 'My work', source: { kind: 'human-session-bridge' } }),
      session({ id: 't', title: 'A run', task_id: 'task' }),
    ];
    server.on('GET /api/sessions', () => answer({ items, next_cursor: null }));
    open('/chat');
    const list = within(await screen.findByRole('navigation', { name: 'Chats' }));
    await list.findByText('The move');
    expect(list.queryByText('My work')).toBeNull();
    expect(list.queryByText('A run')).toBeNull();
  });

  it('names a chat by the address as it was encoded', async () => {
    const server = chatServer({ exists: false });
    open(`/chat/${encodeURIComponent('a%41/b')}`);
    await screen.findByRole('alert');
    expect(server.sent(`GET /api/sessions/${encodeURIComponent('a%41/b')}`)).toHaveLength(1);
  });

  it('offers the link for copying by hand where the browser has no clipboard', async () => {
    vi.stubGlobal('navigator', Object.create(navigator, { clipboard: { value: undefined } }));
    const server = chatServer();
    server.append(says('one'));
    open(`/chat/${THREAD}`);
    await screen.findByText('one');
    const frame = screen.getAllByRole('button', { name: /^Actions of this chat/ })[0] as HTMLElement;
    frame.focus();
    fireEvent.keyDown(frame, { key: 'Enter' });
    fireEvent.click(await screen.findByRole('menuitem', { name: 'Copy link' }));
    await screen.findByText(/This browser does not copy here.*\/chat\/web-abcd1234/);
    vi.unstubAllGlobals();
  });

  it('opens the actions of the chat by a dot', async () => {
    chatServer();
    open(`/chat/${THREAD}`);
    await composer();
    fireEvent.keyDown(document.body, { key: '.' });
    await screen.findByRole('menuitem', { name: 'Rename…' });
  });
});
