import type { Page, Request } from 'playwright-core';
import { expect } from 'vitest';
import { openSession, rowOf } from '../harness/transcript.js';
import type { Visitor } from '../harness/visitor.js';
import { until, within } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { externalSession, say } from '../harness/world.js';

const TABS = 8;

/** Tells the page that it is hidden or visible: pages of a browser without a window are always visible. */
async function setVisible(page: Page, isVisible: boolean): Promise<void> {
  await page.evaluate(
    (state) => {
      Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
      Object.defineProperty(document, 'hidden', { value: state === 'hidden', configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    },
    isVisible ? 'visible' : 'hidden',
  );
}

/** The streams that the visitor's tabs hold open, by the path that they are of. */
function openStreams(visitor: Visitor): () => string[] {
  const open = new Map<Request, string>();
  const end = (request: Request) => open.delete(request);
  visitor.context.on('response', (answer) => {
    const { pathname } = new URL(answer.url());
    if (pathname.endsWith('/stream')) open.set(answer.request(), pathname);
  });
  visitor.context.on('requestfinished', end);
  visitor.context.on('requestfailed', end);
  return () => [...open.values()].sort();
}

/** A call of the page's own; a browser has six connections to a server, and a call that finds none waits. */
function asks(page: Page): Promise<number> {
  const call = page.evaluate(async () => (await fetch('/api/sessions?limit=1')).status);
  return within(`A call of ${page.url()}`, 3_000, call);
}

walk(
  'eight tabs show a session live, each still answers, and a hidden one catches up when it is looked at',
  async (stage) => {
    const { api, url } = stage.shared;
    const session = await externalSession(api, 'Looked at by eight');
    let last = await say(api, session, ['first']);
    const visitor = await stage.visitor(url);
    const streams = openStreams(visitor);
    const tabs: Page[] = [];
    // A hidden tab keeps its stream for some seconds: the second half is opened when the first has given theirs up.
    for (const half of [TABS / 2, TABS / 2]) {
      const opened = await Promise.all(Array.from({ length: half }, () => visitor.open('/sessions')));
      for (const page of opened) await openSession(page, session);
      tabs.push(...opened);
      const hidden = opened.filter((page) => page !== tabs[TABS - 1]);
      await Promise.all(hidden.map((page) => setVisible(page, false)));
      await Promise.all(
        hidden.map((page) => page.locator('.sdr-transcript[data-phase="paused"]').waitFor({ timeout: 9_000 })),
      );
    }
    expect(await Promise.all(tabs.map(asks))).toEqual(tabs.map(() => 200));
    // One for the hints of all tabs, and one for the session of the tab that is looked at.
    const wanted = [`/api/sessions/${session}/stream`, '/api/stream'];
    await until('the tabs hold two streams', () => streams().join() === wanted.join());

    last = await say(
      api,
      session,
      Array.from({ length: 50 }, (_, number) => `line ${number}`),
    );
    const [first, newest] = [tabs[0], tabs[TABS - 1]];
    if (first === undefined || newest === undefined) throw new Error('There are eight tabs.');
    await rowOf(newest, last).waitFor();
    await setVisible(first, true);
    await rowOf(first, last).waitFor();
    await until('each of the two tabs that are looked at has a stream of its own', () => streams().length === 3);

    // The first tab reads the hints for all; when it closes, another one does.
    await first.close();
    const title = 'Told to the tabs that are left';
    await newest.goto(`${url}/sessions`);
    await externalSession(api, title);
    await newest.getByText(title).first().waitFor();
  },
  40_000,
);
