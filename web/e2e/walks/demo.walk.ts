import { expect } from 'vitest';
import { type Api, type Json, type JsonObject, listOf, numberOf, objectOf, textOf } from '../harness/apiClient.js';
import { settled } from '../harness/pages.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';

/** The person whom the app names in local mode. */
const PERSON = 'web-user';
const VISITED = 'de300000-0000-4000-8000-000000000001';

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function itemsOf(api: Api, path: string) {
  return listOf(await api.get(path), 'items');
}

walk('the demo shows every page alive', async (stage) => {
  const { api, url } = stage.demo;
  const visitor = await stage.visitor(url);
  const page = await visitor.open('/');
  for (const section of ['Needs you', 'Running', 'Can be handed over', 'Failed', 'Done today']) {
    await page.getByRole('list', { name: section, exact: true }).getByRole('link').first().waitFor();
  }

  await page.goto(new URL('/inbox', url).href);
  for (const kind of ['Tools', 'Outputs', 'Promotions', 'Questions']) {
    await page.getByRole('button', { name: new RegExp(`^${kind} [1-9]`) }).waitFor();
  }

  await page.goto(new URL('/chat', url).href);
  await page.getByRole('link', { name: /Worried about the ferry/ }).click();
  await page.getByRole('article', { name: 'Reply' }).first().waitFor();
  await page
    .getByText(/my sister gets seasick/)
    .first()
    .waitFor();

  const run = await until('a run of three steps is in flight', async () => {
    for (const session of await itemsOf(api, '/api/sessions?parents_only=true&limit=100')) {
      const id = encodeURIComponent(textOf(session, 'id'));
      if ((await itemsOf(api, `/api/sessions/${id}/children`)).length === 3) return id;
    }
    return null;
  });
  await page.goto(new URL(`/sessions/${run}?tab=steps`, url).href);
  await page.getByRole('region', { name: 'Graph of steps' }).waitFor();
  expect(await page.getByRole('list', { name: 'Steps' }).getByRole('listitem').count()).toBe(3);

  await page.goto(new URL('/sessions?status=failed', url).href);
  await page.getByRole('list', { name: 'Sessions' }).getByRole('link').first().click();
  await page.getByRole('list', { name: 'Facts' }).waitFor();
  await settled(visitor, page);

  const withUsage = (await itemsOf(api, '/api/sessions?limit=100')).filter(
    ({ usage }) => isObject(usage) && Number(usage['output_tokens'] ?? 0) > 0,
  );
  expect(withUsage.length).toBeGreaterThan(2);
});

walk(
  'the demo holds what the pages to come will show: a form, facts, lessons, and fields that stand differently',
  async (stage) => {
    const { api } = stage.demo;
    expect(await itemsOf(api, '/api/views')).not.toEqual([]);
    expect(await itemsOf(api, `/api/memory/facts?user_id=${PERSON}`)).not.toEqual([]);
    expect((await itemsOf(api, '/api/lessons')).length).toBeGreaterThan(2);
    const map = objectOf(await api.get(`/api/entities/${VISITED}/status-map`), 'by_field');
    expect(new Set(Object.values(map)).size).toBeGreaterThan(2);
    expect(numberOf(await api.get('/api/today/work-queue-counts?tz=UTC'), 'needs_me')).toBeGreaterThan(0);
  },
);
