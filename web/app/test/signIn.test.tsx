import { useSederuntClient } from '@sederunt/react';
import { screen, waitFor } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { useState } from 'react';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { SignInProvider } from '../src/auth/SignInProvider.js';
import { reloadPage } from '../src/lib/reloadPage.js';
import { Page as SignInPage } from '../src/pages/sign-in/index.js';
import { ANN, answer, fakeServer, refused, show } from './app.js';

vi.mock('../src/lib/reloadPage.js', () => ({ reloadPage: vi.fn() }));

const CONFIG = { mode: 'keys', version: '0.1.0', sign_in: ['key'] };

/** A form whose words go to the server with one key. */
function NoteForm() {
  const client = useSederuntClient();
  const [text, setText] = useState('');
  const [state, setState] = useState('open');
  const send = async () => {
    setState('sending');
    await client.open('/api/notes', { method: 'POST', body: { text }, idempotencyKey: 'k1' }).then(
      () => setState('saved'),
      () => setState('failed'),
    );
  };
  return (
    <>
      <input aria-label="Note" value={text} onChange={(event) => setText(event.target.value)} />
      <button type="button" onClick={() => void send()}>
        Save
      </button>
      <output>{state}</output>
    </>
  );
}

function signedOutServer() {
  const server = fakeServer();
  let isSignedIn = true;
  server.on('GET /auth/config', () => answer(CONFIG));
  server.on('GET /api/me', () => (isSignedIn ? answer(ANN) : refused(401, 'unauthorized')));
  server.on('POST /api/notes', () => (isSignedIn ? answer({}, 201) : refused(401, 'unauthorized')));
  server.on('POST /auth/session', () => {
    isSignedIn = true;
    return answer(undefined, 204);
  });
  return { ...server, signOut: () => (isSignedIn = false) };
}

beforeEach(() => history.replaceState(null, '', '/'));

describe('the sign-in page', () => {
  it('signs in with a key, forgets it, and returns to where the person was', async () => {
    const server = signedOutServer();
    history.replaceState(null, '', '/sign-in?to=%2Finbox%3Fq%3Da');
    show(<SignInPage />);
    await userEvent.type(await screen.findByLabelText('Key'), ' sdr_secret ');
    await userEvent.click(screen.getByRole('button', { name: 'Sign in' }));
    await waitFor(() => expect(location.pathname + location.search).toBe('/inbox?q=a'));
    expect(server.sent('POST /auth/session').map((call) => call.body)).toEqual([{ key: 'sdr_secret' }]);
    expect(screen.queryByDisplayValue(/sdr_/)).toBeNull();
    expect(JSON.stringify({ ...localStorage, ...sessionStorage })).not.toContain('sdr_');
  });

  it.each([
    [401, {}, 'This key is unknown, revoked or expired. Check it, or ask an owner for another.'],
    [403, {}, 'This key is not for browsers. Use one of an owner, a member or a guest.'],
    [429, { 'retry-after': '90' }, 'Too many tries from this address. Try again in 1 min.'],
    [503, {}, 'refused: x'],
  ])('says one sentence for a refusal with %i, and keeps the field', async (status, headers, sentence) => {
    const server = signedOutServer();
    server.on('POST /auth/session', () => refused(status, 'x', headers as Record<string, string>));
    show(<SignInPage />);
    const field = await screen.findByLabelText('Key');
    await userEvent.type(field, 'sdr_wrong{Enter}');
    expect((await screen.findByRole('alert')).textContent).toBe(sentence);
    expect(field.getAttribute('aria-invalid')).toBe('true');
    expect((field as HTMLInputElement).value).toBe('sdr_wrong');
  });

  it('offers a token where the server takes one', async () => {
    const server = signedOutServer();
    server.on('GET /auth/config', () => answer({ ...CONFIG, mode: 'jwt', sign_in: ['key', 'token'] }));
    show(<SignInPage />);
    await userEvent.click(await screen.findByRole('radio', { name: 'Token' }));
    await userEvent.type(screen.getByLabelText('Token', { selector: '[type=password]' }), 'a.b.c{Enter}');
    await waitFor(() =>
      expect(server.sent('POST /auth/session').map((call) => call.body)).toEqual([{ token: 'a.b.c' }]),
    );
  });

  it('says that local mode has nothing to sign in to', async () => {
    const server = signedOutServer();
    server.on('GET /auth/config', () => answer({ ...CONFIG, mode: 'local', sign_in: [] }));
    show(<SignInPage />);
    await screen.findByText('This server runs in local mode: there is nothing to sign in to.');
  });
});

describe('being signed out', () => {
  it('sends a person without a cookie to the sign-in page', async () => {
    signedOutServer().signOut();
    history.replaceState(null, '', '/sessions?q=a');
    show(<SignInProvider>secret page</SignInProvider>);
    await waitFor(() => expect(location.pathname + location.search).toBe('/sign-in?to=%2Fsessions%3Fq%3Da'));
    expect(screen.queryByText('secret page')).toBeNull();
  });

  it('keeps what was typed in a form, and sends it once after signing in again', async () => {
    const server = signedOutServer();
    show(
      <SignInProvider>
        <NoteForm />
      </SignInProvider>,
    );
    await userEvent.type(await screen.findByLabelText('Note'), 'half a thought');
    server.signOut();
    await userEvent.click(screen.getByRole('button', { name: 'Save' }));
    await screen.findByRole('dialog', { name: 'Signed out. Sign in again.' });
    expect(screen.getByText('sending')).toBeTruthy();
    await userEvent.type(await screen.findByLabelText('Key'), 'sdr_again{Enter}');
    await screen.findByText('saved');
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    expect((screen.getByLabelText('Note') as HTMLInputElement).value).toBe('half a thought');
    const sent = server.sent('POST /api/notes');
    expect(sent.map((call) => call.body)).toEqual([{ text: 'half a thought' }, { text: 'half a thought' }]);
    expect(sent.map((call) => call.headers.get('idempotency-key'))).toEqual(['k1', 'k1']);
  });

  it('comes back after it was dismissed when the person does something', async () => {
    const server = signedOutServer();
    show(
      <SignInProvider>
        <NoteForm />
      </SignInProvider>,
    );
    await screen.findByLabelText('Note');
    server.signOut();
    await userEvent.click(screen.getByRole('button', { name: 'Save' }));
    await screen.findByRole('dialog');
    await userEvent.keyboard('{Escape}');
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    await userEvent.click(screen.getByRole('button', { name: 'Save' }));
    await screen.findByRole('dialog');
  });

  it('sends nothing for another person who signs in', async () => {
    const server = signedOutServer();
    show(
      <SignInProvider>
        <NoteForm />
      </SignInProvider>,
    );
    await screen.findByLabelText('Note');
    server.signOut();
    await userEvent.click(screen.getByRole('button', { name: 'Save' }));
    server.on('GET /api/me', () => answer({ ...ANN, user: { id: 'ben', name: 'Ben' } }));
    await userEvent.type(await screen.findByLabelText('Key'), 'sdr_ben{Enter}');
    await waitFor(() => expect(reloadPage).toHaveBeenCalled());
    expect(server.sent('POST /api/notes')).toHaveLength(1);
    expect(screen.getByText('sending')).toBeTruthy();
  });
});
