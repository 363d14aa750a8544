import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { openSession, rowOf } from '../harness/transcript.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { externalSession, reportThatWaits, say } from '../harness/world.js';

/** What a page does in one go for any one text; how little its own work may be is held by the tests of its parts. */
const TASK_MS_MAX = 400;

/** Texts that a log may hold, and what of each is on the screen. None of them does anything but stand there. */
const TEXTS: readonly [text: string, shown: RegExp][] = [
  ['<script>stolen = 1</script> a script', /<script>stolen = 1<\/script> a script/],
  ['<img src=x onerror="stolen = 1"> an image', /an image/],
  ['[here](javascript:stolen=1) and [there](data:text/html,<script>stolen=1</script>)', /here and there/],
  ['![a cat](http://127.0.0.1:9/cat.png) from afar', /\[image: a cat\].*from afar/s],
  ['\u202eright to left\u200b\u200d\ufeff and on', /right to left/],
  ['\u001b[31mred\u001b[0m \u001b]0;title\u0007 terminal', /red.*terminal/s],
  [`${'🎉'.repeat(200)} party`, /🎉/u],
  [JSON.stringify(JSON.parse(`${'{"a":'.repeat(64)}1${'}'.repeat(64)}`)), /\{"a":/],
  [`long ${'x'.repeat(200_000)}`, /Show all \(200,005 characters\)/],
  [`${'line\n'.repeat(10_000)}end`, /Show all/],
  [`${'>'.repeat(10_000)} quotes`, />>>/],
  [`${'['.repeat(10_000)} brackets`, /\[\[\[/],
  [Array.from({ length: 300 }, (_, at) => `${' '.repeat(at * 2)}- deep`).join('\n'), /deep/],
  [`${'|a'.repeat(2000)}\n${'|-'.repeat(2000)}\n${'|b'.repeat(2000)}`, /\|a\|a/],
];

/** Remembers how long the page was busy in one go, and what would show that a text has done something. */
const WATCH = `window.longest = 0; new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ entryTypes: ['longtask'] });`;

interface Watched {
  longest: number;
  stolen?: number;
}

const watched = (page: Page) =>
  page.evaluate(() => {
    const { longest, stolen } = window as unknown as Watched;
    return { longest, stolen };
  });

describe('a log that holds what nobody should write', () => {
  walk('is on the screen, does nothing, and leaves the page quick', async (stage) => {
    const { api, url } = stage.shared;
    const session = await externalSession(api, '🎉'.repeat(200));
    await say(api, session, ['first']);
    const visitor = await stage.visitor(url);
    await visitor.context.addInitScript(WATCH);
    const page = await visitor.open('/sessions');
    await openSession(page, session);
    await page.evaluate(() => {
      (window as unknown as Watched).longest = 0;
    });
    for (const [text, shown] of TEXTS) {
      const sequence = await say(api, session, [text]);
      await until(`the text ${JSON.stringify(text.slice(0, 40))} is on the screen`, async () => {
        const row = rowOf(page, sequence);
        return (await row.isVisible()) && shown.test(await row.innerText());
      });
    }
    const { longest, stolen } = await watched(page);
    expect(stolen).toBeUndefined();
    expect(longest).toBeLessThan(TASK_MS_MAX);
    expect(await page.locator('.sdr-scroller :is(script, img, iframe, style)').count()).toBe(0);
    for (const link of await page.locator('.sdr-scroller a').all()) {
      expect(await link.getAttribute('href')).toMatch(/^(https?:|mailto:|\/)/);
    }
    await page.goto(new URL(`/chat/${session}`, url).href);
    await page.getByText('an image').first().waitFor();
    expect((await watched(page)).stolen).toBeUndefined();
  });

  walk('of types and shapes that were never seen is shown as far as it can be read', async (stage) => {
    const { api, url } = stage.shared;
    const session = await externalSession(api, 'Of other shapes');
    const last = await say(api, session, ['before']);
    const page = await (await stage.visitor(url)).open('/sessions');
    const shapes: readonly [more: object, shown: RegExp][] = [
      [{ type: 'never.seen', content: null, metadata: { cents: 12 } }, /never\.seen.*"cents": 12/s],
      [{ type: 'agent.message', content: 'no array' }, /no array/],
      [{ type: 'agent.message', content: [{ type: 'text' }, null, 7] }, /./],
      [{ type: 'agent.message', content: { parts: 'none' }, at: 'no time', author: 3, role: null }, /none/],
      [{ type: 'agent.tool_call', content: null, metadata: 'no object' }, /no result/],
      [{ type: 'agent.tool_result', content: [[]], metadata: { tool_call_id: 'gone' } }, /without its call/],
      [{ type: 'session.waiting_approval', metadata: { approval_id: 'none', kind: 'magic' } }, /magic/],
      [
        { type: 'agent.message', content: 'a day ago', at: new Date(Date.now() - 86_400_000).toISOString() },
        /a day ago/,
      ],
      [{ type: 'agent.message', content: 'tomorrow', at: new Date(Date.now() + 86_400_000).toISOString() }, /tomorrow/],
    ];
    // The server takes no such events: they come from a later version, or were written by hand.
    await page.route(`**/api/sessions/${session}/events?*`, async (route) => {
      const answer = await route.fetch();
      const body = await answer.json();
      const planted = shapes.map(([more], at) => ({ ...body.events[0], sequence: last + 1 + at, ...more })).reverse();
      await route.fulfill({
        response: answer,
        json: { ...body, events: [...planted, ...body.events], last_sequence: last + shapes.length },
      });
    });
    await page.goto(new URL(`/sessions/${session}`, url).href);
    for (const [at, [, shown]] of shapes.entries()) {
      await until(`the event ${at} of ${shown} is on the screen`, async () => {
        const row = rowOf(page, last + 1 + at);
        return (await row.isVisible()) && shown.test(await row.innerText());
      });
    }
    for (const tab of ['Timeline', 'Steps', 'Result', 'Raw', 'Transcript']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tabpanel', { name: tab }).waitFor();
    }
  });
});

walk('approvals that cannot be read are shown as broken, and nothing of them can be approved', async (stage) => {
  const { api, url } = stage.shared;
  const report = await reportThatWaits(api);
  const page = await (await stage.visitor(url)).open('/');
  const change = async (more: object) => {
    await page.unroute('**/api/approvals/*');
    await page.route('**/api/approvals/*', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), ...more } });
    });
    await page.goto(new URL(`/inbox/${report.approval}`, url).href);
  };
  await change({ kind: 'magic' });
  await page.getByText('This approval cannot be read, and nothing of it is carried out.').waitFor();
  expect(await page.getByRole('button', { name: /^(Approve|Edit|Reject)/ }).count()).toBe(0);
  await change({ staged: { rain: 'perhaps', sun: 7 } });
  await page.getByText('Its contract asks for summary, which is missing.').waitFor();
});

walk('steps that wait for each other in a circle, and a run whose parent is gone, are shown', async (stage) => {
  const { api, url } = stage.shared;
  const child = await externalSession(api, 'An orphan');
  const page = await (await stage.visitor(url)).open('/');
  // The server takes no such graph: it stands for one that was brought in from elsewhere.
  await page.route(`**/api/sessions/${child}/children?*`, async (route) => {
    const row = await api.get(`/api/sessions/${child}`);
    const step = (key: string, depends_on: string[]) => ({
      ...row,
      id: `${child}-${key}`,
      step: { key, name: `Step ${key}`, depends_on },
    });
    await route.fulfill({
      json: { items: [step('a', ['b']), step('b', ['c']), step('c', ['a', 'gone'])], next_cursor: null },
    });
  });
  await page.route(new RegExp(`/api/sessions/${child}(\\?.*)?$`), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), parent_id: 'walk-gone' } });
  });
  await page.goto(new URL(`/sessions/${child}?tab=steps`, url).href);
  await page.getByText(/These steps wait for each other in a circle/).waitFor();
  await page.getByRole('region', { name: 'Graph of steps' }).getByText('no such step').waitFor();
  await page.getByText('a step of a session that is gone or not yours to see').waitFor();
});

walk('a session and a chat that are deleted while they are open say so, and lead back', async (stage) => {
  const { api, url } = stage.shared;
  const session = await externalSession(api, 'Soon gone');
  await say(api, session, ['first']);
  const visitor = await stage.visitor(url);
  const page = await visitor.open('/sessions');
  await openSession(page, session);
  const chat = await visitor.open(`/chat/${session}`);
  await chat.getByText('first', { exact: true }).first().waitFor();
  await api.call('DELETE', `/api/sessions/${session}`);
  await page.getByText('This session was deleted.').waitFor();
  await page.getByRole('link', { name: 'Back to the sessions' }).click();
  await page.waitForURL('**/sessions');
  await chat.getByRole('alert').waitFor();
  await chat.getByRole('main').getByRole('button', { name: 'New chat' }).last().click();
  await chat.waitForURL('**/chat');
});
