import { expect } from 'vitest';
import { textOf } from '../harness/apiClient.js';
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
