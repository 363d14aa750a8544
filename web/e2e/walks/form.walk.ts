import { expect } from 'vitest';
import { type Api, listOf, objectOf, textOf } from '../harness/apiClient.js';
import { freePort } from '../harness/ports.js';
import { passOn } from '../harness/proxy.js';
import { listenTls, makeCertificate, pageWithFrame } from '../harness/tlsFront.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';

interface Form {
  id: string;
  /** Path and query of the address by which a stranger opens it. */
  path: string;
}

async function makeForm(api: Api, embedOrigins: readonly string[] = []): Promise<Form> {
  const id = textOf(
    await api.post('/api/views', {
      title: 'Apply for a stand',
      questions: [
        { key: 'name', label: 'Your company', type: 'text', required: true },
        {
          key: 'stand',
          label: 'Stand',
          type: 'choice',
          required: true,
          options: [
            { value: 'small', label: 'Small' },
            { value: 'large', label: 'Large' },
          ],
        },
      ],
      publish_config: { gate: 'none' },
      response: { promote: 'off', ...(embedOrigins.length > 0 ? { embed_origins: embedOrigins } : {}) },
    }),
    'id',
  );
  const link = new URL(textOf(await api.post(`/api/views/${id}/share`), 'url'));
  return { id, path: link.pathname + link.search };
}

async function answersOf(api: Api, form: Form) {
  const responses = listOf(await api.get(`/api/views/${form.id}/responses`), 'items');
  return responses.map((response) => ({ status: response['status'], values: objectOf(response, 'values') }));
}

walk('a form is saved while a stranger writes it, is there again after a reload, and is sent once', async (stage) => {
  const { api } = stage.shared;
  const form = await makeForm(api);
  // The page of a form is the server's own, and no part of the app.
  const page = await (await stage.visitor(api.url)).open(form.path);
  await page.getByLabel('Your company').fill('Acme');
  await page.getByText('Saved', { exact: true }).waitFor();
  expect(await answersOf(api, form)).toEqual([{ status: 'draft', values: { name: 'Acme' } }]);

  await page.reload();
  await page.getByText('Saved: this is what you entered before.').waitFor();
  expect(await page.getByLabel('Your company').inputValue()).toBe('Acme');

  await page.getByRole('button').click();
  await until(
    'the browser asks for the missing answer',
    async () => (await page.evaluate(() => document.activeElement?.getAttribute('name'))) === 'stand',
  );
  await page.getByLabel('Large').check();
  await page.getByRole('button').click();
  await page.getByText('Thank you. Your answer has been received.').waitFor();
  expect(await answersOf(api, form)).toEqual([{ status: 'submitted', values: { name: 'Acme', stand: 'large' } }]);

  const stranger = await (await stage.visitor(api.url)).open(form.path);
  await stranger.getByLabel('Your company').waitFor();
  expect(await stranger.getByLabel('Your company').inputValue()).toBe('');
});

walk('a form works in a frame of an origin that it names, and is not shown in one of another origin', async (stage) => {
  const [formPort, namedPort, otherPort] = await Promise.all([freePort(), freePort(), freePort()]);
  const formUrl = `https://localhost:${formPort}`;
  const place = await stage.ownPlaceWithKeys(['--public-url', formUrl]);
  const certificate = await makeCertificate();
  const form = await makeForm(place.api, [`https://127.0.0.1:${namedPort}`]);
  stage.onEnd(await listenTls(formPort, certificate, passOn(place.server.url)));
  for (const port of [namedPort, otherPort]) {
    stage.onEnd(await listenTls(port, certificate, pageWithFrame(formUrl + form.path)));
  }

  const visitor = await stage.visitor(`https://127.0.0.1:${namedPort}`, { acceptsAnyCertificate: true });
  const page = await visitor.open('/');
  const frame = page.frameLocator('iframe');
  await frame.getByLabel('Your company').fill('Acme');
  await frame.getByText('Saved', { exact: true }).waitFor();
  await page.reload();
  await frame.getByText('Saved: this is what you entered before.').waitFor();
  expect(await frame.getByLabel('Your company').inputValue()).toBe('Acme');
  expect(await answersOf(place.api, form)).toEqual([{ status: 'draft', values: { name: 'Acme' } }]);

  const other = await visitor.open(`https://127.0.0.1:${otherPort}/`);
  const inside = await until('the frame of the other origin has ended loading', () =>
    other.frames().find((one) => one !== other.mainFrame() && one.url() !== '' && one.url() !== 'about:blank'),
  );
  expect(await inside.locator('form').count()).toBe(0);
  expect(inside.url()).toMatch(/^chrome-error:/);
});
