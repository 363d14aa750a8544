import { expect } from 'vitest';
import { type JsonObject, listOf, textOf } from '../harness/apiClient.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';

walk(
  'a person signs in by key, and within five seconds of the revocation every tab says that they are signed out',
  async (stage) => {
    const place = await stage.ownPlaceWithKeys();
    const made = await place.api.post('/api/keys', { role: 'owner', user: 'gus' });
    const gus = await stage.visitor(place.url);
    const first = await gus.open('/sessions?status=running');
    await first.getByLabel('Key', { exact: true }).fill(textOf(made, 'key'));
    await first.getByRole('button', { name: 'Sign in' }).click();
    await first.getByRole('navigation', { name: 'Pages' }).waitFor();
    expect(new URL(first.url()).pathname + new URL(first.url()).search).toBe('/sessions?status=running');
    const second = await gus.open('/');
    await second.getByRole('navigation', { name: 'Pages' }).waitFor();
    const stored = await second.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
    expect(stored).not.toContain('sdr_');

    await place.api.call('DELETE', `/api/keys/${textOf(made, 'id')}`);
    const signedOut = (page: typeof first) => page.getByText('Signed out. Sign in again.').first();
    await Promise.all([first, second].map((page) => signedOut(page).waitFor({ timeout: 5_000 })));

    const again = await place.api.post('/api/keys', { role: 'owner', user: 'gus' });
    await first.getByLabel('Key', { exact: true }).fill(textOf(again, 'key'));
    await first.getByRole('button', { name: 'Sign in' }).click();
    await until('the tab that signed in goes on', async () => (await signedOut(first).count()) === 0);
  },
);

walk(
  'a message that was being written when the key was revoked is kept, and sent once after signing in again',
  async (stage) => {
    const place = await stage.ownPlaceWithKeys();
    const newKey = () => place.api.post('/api/keys', { role: 'owner', user: 'gus' });
    const made = await newKey();
    const page = await (await stage.visitor(place.url)).open('/chat');
    const signInBy = async (key: JsonObject) => {
      await page.getByLabel('Key', { exact: true }).fill(textOf(key, 'key'));
      await page.getByRole('button', { name: 'Sign in' }).click();
    };
    await signInBy(made);
    const message = page.getByRole('textbox', { name: 'Message' });
    await message.fill('Order the desks, and say so to all of them.');
    await place.api.call('DELETE', `/api/keys/${textOf(made, 'id')}`);
    await page.getByText('Signed out. Sign in again.').first().waitFor({ timeout: 5_000 });
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await message.inputValue()).toBe('Order the desks, and say so to all of them.');
    await message.focus();
    await page.keyboard.press('Control+Enter');
    await page.getByRole('dialog').waitFor();
    await signInBy(await newKey());
    const thread = await until('the chat is open', () => /\/chat\/(web-[0-9a-z]{8})$/.exec(page.url())?.[1]);
    const said = await until('the message is in the log', async () => {
      const log = await place.api.get(`/api/sessions/${thread}/events?types=user.message`).catch(() => null);
      const events = log === null ? [] : listOf({ events: log['events'] ?? null }, 'events');
      return events.length > 0 && events;
    });
    await page.getByText('Order the desks, and say so to all of them.', { exact: true }).first().waitFor();
    expect(said).toHaveLength(1);
  },
);
