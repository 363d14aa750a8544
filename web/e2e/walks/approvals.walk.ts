import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { type Api, objectOf, textOf } from '../harness/apiClient.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { type Report, reportThatWaits } from '../harness/world.js';

/** A decision is sent after the five seconds in which it can be taken back. */
const DECIDED_MS = 9_000;

const shownApproval = (page: Page, report: Report) => page.getByRole('article', { name: report.taskName });

function decided(api: Api, report: Report): Promise<string> {
  return until(
    'the decision has reached the server',
    async () => {
      const state = textOf(await api.get(`/api/approvals/${report.approval}`), 'state');
      return state !== 'pending' && state;
    },
    DECIDED_MS,
  );
}

async function logOf(api: Api, report: Report): Promise<string> {
  return JSON.stringify(await api.get(`/api/sessions/${report.session}/events?limit=1000`));
}

walk(
  'a person finds an approval in the inbox, edits a field, sees the difference and approves, by keyboard alone',
  async (stage) => {
    const { api, url } = stage.shared;
    const report = await reportThatWaits(api);
    const page = await (await stage.visitor(url)).open('/');
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('i');
    await page
      .getByRole('link', { name: new RegExp(report.entityTitle) })
      .first()
      .waitFor();
    const approval = shownApproval(page, report);
    await until('j has led to the approval', async () => {
      if (await approval.isVisible()) return true;
      await page.keyboard.press('j');
      return false;
    });
    await approval.getByText('Rain.').first().waitFor();

    await page.keyboard.press('e');
    await until('the first field has the focus', () =>
      page.evaluate(() => document.activeElement?.classList.contains('sdr-field') ?? false),
    );
    await until('Tab has led to the summary', async () => {
      if (await approval.getByLabel('summary').evaluate((field) => field === document.activeElement)) return true;
      await page.keyboard.press('Tab');
      return false;
    });
    await page.keyboard.press('Control+a');
    await page.keyboard.type('Rain until five, then sun.');
    await approval.locator('.sdr-removed', { hasText: 'Rain.' }).waitFor();
    await approval.locator('.sdr-added', { hasText: 'Rain until five, then sun.' }).waitFor();
    await page.keyboard.press('Control+Enter');
    await page
      .getByText(/Approved/)
      .first()
      .waitFor();

    expect(await decided(api, report)).toBe('approved');
    const { summary } = objectOf(await api.get(`/api/entities/${report.entity}`), 'fields');
    expect(summary).toBe('Rain until five, then sun.');
    const log = await logOf(api, report);
    expect(log).toContain('user.output_approval');
    expect(log).toContain('Rain until five, then sun.');
    await page.goto(new URL(`/sessions/${report.session}`, url).href);
    await page.getByText('completed').first().waitFor();
  },
);

walk('an approval that is taken back within five seconds stays undecided', async (stage) => {
  const { api, url } = stage.shared;
  const report = await reportThatWaits(api);
  const page = await (await stage.visitor(url)).open(`/inbox/${report.approval}`);
  await shownApproval(page, report).getByRole('button', { name: 'Approve' }).waitFor();
  await page.keyboard.press('a');
  await page.getByRole('button', { name: /Undo/ }).first().click();
  await page.getByText('Approved').waitFor({ state: 'detached' });
  await page.goto(new URL(`/inbox/${report.approval}`, url).href);
  await shownApproval(page, report).getByRole('button', { name: 'Approve' }).waitFor();
  expect(textOf(await api.get(`/api/approvals/${report.approval}`), 'state')).toBe('pending');
});

walk('the opposite decision from a second window is refused by a sentence that names who decided', async (stage) => {
  const place = await stage.ownPlaceWithKeys();
  const report = await reportThatWaits(place.api);
  const windows: Page[] = [];
  for (const user of ['ann', 'gus']) {
    const { key } = await place.api.post('/api/keys', { role: 'owner', user });
    const page = await (await stage.visitor(place.url)).open(`/inbox/${report.approval}?whose=all`);
    await page.getByLabel('Key', { exact: true }).fill(String(key));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await shownApproval(page, report).getByRole('button', { name: 'Approve' }).waitFor();
    windows.push(page);
  }
  const [ann, gus] = windows;
  if (ann === undefined || gus === undefined) throw new Error('There are two windows.');

  // Gus has begun to say why when Ann approves.
  await gus.keyboard.press('r');
  await gus.keyboard.type('The tide is wrong.');
  await ann.keyboard.press('a');
  await gus.keyboard.press('Control+Enter');
  expect(await decided(place.api, report)).toMatch(/approved|denied/);
  const first = textOf(await place.api.get(`/api/approvals/${report.approval}`), 'decided_by');
  const [late, sentence] =
    first === 'ann' ? [gus, /ann approved this .* ago\./i] : [ann, /gus rejected this .* ago\./i];
  await late.getByText(sentence).first().waitFor({ timeout: DECIDED_MS });
});
