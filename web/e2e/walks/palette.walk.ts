import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { externalSession, fresh, say } from '../harness/world.js';

walk(
  'the palette goes to pages and finds a session by its words, all by keyboard, and gives the focus back',
  async (stage) => {
    const { api, url } = stage.shared;
    const word = fresh('parcel').replaceAll('-', '');
    const session = await externalSession(api, `Find the ${word}`);
    await say(api, session, ['It is at the depot.']);
    const page = await (await stage.visitor(url)).open('/inbox');
    await page.getByRole('heading', { name: 'Inbox' }).first().waitFor();
    const search = page.getByRole('combobox', { name: 'Search, go and do' });

    await page.keyboard.press('Control+k');
    await search.fill('sess');
    await page.getByRole('option', { name: 'Sessions' }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/sessions');

    await page.keyboard.press('Control+k');
    await search.fill(word);
    await page
      .getByRole('option', { name: new RegExp(word) })
      .first()
      .waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.waitForURL((address) => address.pathname === `/sessions/${session}`);

    await page.getByRole('heading', { level: 1, name: new RegExp(word) }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('i');
    await page.waitForURL(/\/inbox/);
    await page.keyboard.press('Control+k');
    await page
      .getByRole('group', { name: 'Recent' })
      .getByRole('option', { name: new RegExp(word) })
      .waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL((address) => address.pathname === `/sessions/${session}`);

    const focused = () => page.evaluate(() => document.activeElement?.outerHTML.slice(0, 80));
    await page.getByRole('link', { name: /^Chat/ }).focus();
    const before = await focused();
    await page.keyboard.press('Control+k');
    await search.waitFor();
    await page.keyboard.press('Escape');
    await search.waitFor({ state: 'detached' });
    await until('the link has the focus again', async () => (await focused()) === before);
  },
);

walk('the letters after g go to the pages, and back and forward return', async (stage) => {
  const page = await (await stage.visitor(stage.shared.url)).open('/');
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  for (const [letter, path] of [
    ['i', '/inbox'],
    ['s', '/sessions'],
    ['c', '/chat'],
    ['t', '/'],
  ] as const) {
    await page.keyboard.press('g');
    await page.keyboard.press(letter);
    await page.waitForURL((address) => address.pathname === path);
  }
  await page.goBack();
  await page.waitForURL('**/chat');
  await page.goForward();
  await page.waitForURL((address) => address.pathname === '/');
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('Go to').first().waitFor();
});
