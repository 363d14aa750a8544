import type { Page } from 'playwright-core';
import { textOf } from '../harness/apiClient.js';
import { walk } from '../harness/walk.js';
import { type Claim, claim, fresh } from '../harness/world.js';

/** The step in the list beneath the graph, with its status. */
const stepWith = (page: Page, name: string, status: string) =>
  page
    .getByRole('list', { name: 'Steps' })
    .getByRole('listitem')
    .filter({ hasText: new RegExp(`${status}[^]*${name}|${name}[^]*${status}`, 'i') });

walk('two windows follow the steps of a run as they begin and end, in the graph and in the list', async (stage) => {
  const { api, url } = stage.shared;
  const [ask, check, publish] = [fresh('ask'), fresh('check'), fresh('publish')];
  for (const slug of [ask, check, publish]) {
    await api.post('/api/agents', { slug, name: slug, instructions: 'Work.', model: 'external' });
  }
  const task = await api.post('/api/tasks', {
    slug: fresh('forecast'),
    name: 'Publish the forecast',
    steps: [
      { key: 'ask', name: 'Ask the stations', agent_slug: ask },
      { key: 'check', name: 'Check the figures', agent_slug: check },
      { key: 'publish', name: 'Publish it', agent_slug: publish, depends_on: ['ask', 'check'] },
    ],
  });
  const run = textOf(await api.post(`/api/tasks/${textOf(task, 'id')}/trigger`), 'id');
  const address = `/sessions/${run}?tab=steps`;
  const windows = [await (await stage.visitor(url)).open(address), await (await stage.visitor(url)).open(address)];
  const both = (look: (page: Page) => Promise<unknown>) => Promise.all(windows.map(look));
  const complete = ({ session, epoch }: Claim) =>
    api.post(`/api/sessions/${session}/complete`, { epoch, text: 'Done.' });

  await both((page) => page.getByRole('region', { name: 'Graph of steps' }).waitFor());
  await both((page) => stepWith(page, 'Ask the stations', 'pending').waitFor());
  const [asking, checking] = [await claim(api, ask), await claim(api, check)];
  await both((page) => stepWith(page, 'Ask the stations', 'running').waitFor());
  await complete(asking);
  await both((page) => stepWith(page, 'Ask the stations', 'completed').waitFor());
  await both((page) => stepWith(page, 'Check the figures', 'running').waitFor());
  await complete(checking);
  const publishing = await claim(api, publish);
  await both((page) => stepWith(page, 'Publish it', 'running').waitFor());
  await complete(publishing);
  await both((page) => stepWith(page, 'Publish it', 'completed').waitFor());

  const [first] = windows;
  await first
    ?.getByRole('region', { name: 'Graph of steps' })
    .getByRole('link', { name: /Publish it/ })
    .focus();
  await first?.keyboard.press('Enter');
  await first?.waitForURL((now) => now.pathname === `/sessions/${publishing.session}`);
});
