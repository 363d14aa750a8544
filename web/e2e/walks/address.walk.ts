import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { settled } from '../harness/pages.js';
import { until } from '../harness/waiting.js';
import { type Stage, walk } from '../harness/walk.js';
import { externalSession, fresh, reportThatWaits, say } from '../harness/world.js';

const NONSENSE = [
  '%00',
  '%E0%A4%A',
  '-1e99',
  '%F0%9F%8E%89',
  'null',
  '[]',
  '__proto__',
  '%3Cscript%3E',
  '//evil.example',
  'a'.repeat(3_000),
];
const PARAMETERS = 'q in type status group agent task kind user inactive steps tab seq show whose do to share'.split(
  ' ',
);

/** Many pages, one after the other. */
const NONSENSE_MS = 90_000;

async function visitNonsense(stage: Stage, paths: readonly string[]): Promise<void> {
  const visitor = await stage.visitor(stage.shared.url);
  for (const path of paths) {
    const page = await visitor.open(path);
    await settled(visitor, page);
    const words = await page.locator('main').innerText();
    expect(words.trim(), path).not.toBe('');
    expect(words, path).not.toContain('This page has failed');
    expect(await page.getByRole('heading', { level: 1 }).first().innerText(), path).not.toBe('');
    await page.close();
  }
}

describe('an address with nonsense', () => {
  walk(
    'in every parameter shows its page',
    async (stage) => {
      const { api } = stage.shared;
      const session = await externalSession(api, 'Reached by nonsense');
      const { approval } = await reportThatWaits(api);
      const queries = NONSENSE.map((value) =>
        PARAMETERS.map((name) => `${name}=${value}`)
          .join('&')
          .slice(0, 6_000),
      );
      const pages = ['/', '/inbox', `/inbox/${approval}`, '/sessions', `/sessions/${session}`, '/chat'];
      await visitNonsense(
        stage,
        queries.map((query, at) => `${pages[at % pages.length]}?${query}`),
      );
    },
    NONSENSE_MS,
  );

  walk(
    'in its path says that nothing is there',
    async (stage) => {
      const names = ['%E0%A4%A', '%F0%9F%8E%89', '__proto__', '%3Cscript%3E', 'a'.repeat(3_000)];
      const paths = names.flatMap((name) => [`/sessions/${name}`, `/inbox/${name}`, `/chat/${name}`]);
      await visitNonsense(stage, [...paths, '/chat/a/b/c', '/shared/%E0%A4%A?share=x', '/nowhere?x=%']);
    },
    NONSENSE_MS,
  );
});

/** What is on the screen, by its address and heading. */
function here(page: Page): Promise<string> {
  return page.evaluate(() => `${location.pathname}${location.search} ${document.querySelector('h1')?.textContent}`);
}

walk('back and forward lead through everything that was looked at', async (stage) => {
  const { api, url } = stage.shared;
  const word = fresh('kept').replaceAll('-', '');
  const session = await externalSession(api, `Look at ${word}`);
  await say(api, session, ['one', 'two']);
  const report = await reportThatWaits(api);
  const visitor = await stage.visitor(url);
  const page = await visitor.open('/');
  const seen: string[] = [];
  const note = async (address: string | RegExp) => {
    await page.waitForURL((now) =>
      typeof address === 'string' ? now.pathname + now.search === address : address.test(now.href),
    );
    await settled(visitor, page);
    seen.push(await here(page));
  };
  await note('/');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await note('/sessions');
  await page.getByLabel('Kind').selectOption('api');
  await note('/sessions?kind=api');
  await page.getByRole('link', { name: new RegExp(word) }).click();
  await note(`/sessions/${session}`);
  await page.getByRole('tab', { name: 'Raw' }).click();
  await note(`/sessions/${session}?tab=raw`);
  await page.getByRole('tab', { name: 'Result' }).click();
  await note(`/sessions/${session}?tab=result`);
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await page
    .getByRole('list', { name: 'Approvals' })
    .getByRole('link', { name: new RegExp(report.entityTitle) })
    .first()
    .click();
  await note(`/inbox/${report.approval}`);
  await page.keyboard.press('g');
  await page.keyboard.press('c');
  await note('/chat');

  /** The inbox goes on to its first approval by itself, so that a step there is followed by another one. */
  const walkTo = async (to: string, go: () => Promise<unknown>) => {
    for (let steps = 0; steps < 2; steps++) {
      await go();
      const isThere = until(`the way has led to ${to}`, async () => (await here(page)) === to);
      if (await isThere.catch(() => false)) return;
    }
    throw new Error(`The way has led to ${await here(page)}, and not to ${to} of ${seen.join(', ')}.`);
  };
  for (const to of seen.slice(0, -1).reverse()) await walkTo(to, () => page.goBack());
  for (const to of seen.slice(1)) await walkTo(to, () => page.goForward());
});

walk(
  'a session that is opened by keyboard has the focus, and gives it back to its row in the filtered list',
  async (stage) => {
    const { api, url } = stage.shared;
    const word = fresh('found').replaceAll('-', '');
    const session = await externalSession(api, `Come back to ${word}`);
    await say(api, session, ['one']);
    const page = await (await stage.visitor(url)).open(`/sessions?q=${word}&kind=api`);
    const row = page.getByRole('list', { name: 'Sessions' }).getByRole('link', { name: new RegExp(word) });
    await row.waitFor();
    const hasFocus = () => row.evaluate((link) => link === document.activeElement).catch(() => false);
    const openIt = async () => {
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: new RegExp(word) }).waitFor();
      await until('the page has the focus', () =>
        page.evaluate(() => document.querySelector('main')?.contains(document.activeElement) ?? false),
      );
    };
    await page.keyboard.press('j');
    await until('the row has the focus', hasFocus);
    for (const leave of [() => page.keyboard.press('Escape'), () => page.goBack()]) {
      await openIt();
      await leave();
      await page.waitForURL((now) => now.pathname + now.search === `/sessions?q=${word}&kind=api`);
      await until('the row has the focus again', hasFocus);
    }
  },
);
