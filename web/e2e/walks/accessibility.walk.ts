import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { type Api, listOf, textOf } from '../harness/apiClient.js';
import { seriousViolations } from '../harness/axe.js';
import { PHONE } from '../harness/visitor.js';
import { until } from '../harness/waiting.js';
import { type Stage, walk } from '../harness/walk.js';

/** Waits until what the page has asked the server for is on the screen. */
async function settled(page: Page): Promise<void> {
  await page.locator('main').waitFor();
  await until('the page shows more than skeletons', async () => {
    const [busy, text] = await Promise.all([
      page.locator('main [aria-busy="true"]').count(),
      page.locator('main').innerText(),
    ]);
    return busy === 0 && text.trim() !== '';
  });
}

/** The pages of the demo, by name. */
async function pathsOf(api: Api): Promise<Record<string, string>> {
  const first = async (path: string) => textOf(listOf(await api.get(path), 'items')[0] ?? {}, 'id');
  const [approval, parent, session] = await Promise.all([
    first('/api/approvals?state=pending&limit=1'),
    first('/api/sessions?parents_only=true&session_type=task&limit=1').catch(() => first('/api/sessions?limit=1')),
    first('/api/sessions?status=failed&limit=1'),
  ]);
  return {
    Today: '/',
    'the inbox': '/inbox',
    'an approval': `/inbox/${approval}`,
    'the sessions': '/sessions',
    'a session': `/sessions/${session}`,
    'the timeline of a session': `/sessions/${session}?tab=timeline`,
    'the steps of a session': `/sessions/${parent}?tab=steps`,
    'the result of a session': `/sessions/${session}?tab=result`,
    'a raw session': `/sessions/${session}?tab=raw`,
    'the chat': '/chat',
    'an address without a page': '/nowhere/at/all',
  };
}

async function violationsOf(
  stage: Stage,
  theme: 'light' | 'dark',
  size?: { width: number; height: number },
): Promise<string[]> {
  const visitor = await stage.visitor(stage.demo.url, { theme, hasAxe: true, ...(size === undefined ? {} : { size }) });
  const found: string[] = [];
  for (const [name, path] of Object.entries(await pathsOf(stage.demo.api))) {
    const page = await visitor.open(path);
    await settled(page);
    found.push(...(await seriousViolations(page)).map((violation) => `${name} (${path}): ${violation}`));
    await page.close();
  }
  return found;
}

describe('axe finds nothing serious or critical', () => {
  walk(
    'on the pages in the light theme',
    async (stage) => expect(await violationsOf(stage, 'light')).toEqual([]),
    40_000,
  );
  walk(
    'on the pages in the dark theme',
    async (stage) => expect(await violationsOf(stage, 'dark')).toEqual([]),
    40_000,
  );
  walk(
    'on the pages on a telephone',
    async (stage) => expect(await violationsOf(stage, 'light', PHONE)).toEqual([]),
    40_000,
  );

  for (const theme of ['light', 'dark'] as const) {
    walk(`in the palette, the map of the keys and the sign-in page, in the ${theme} theme`, async (stage) => {
      const visitor = await stage.visitor(stage.demo.url, { theme, hasAxe: true });
      const page = await visitor.open('/inbox');
      await settled(page);
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Search, go and do' }).fill('s');
      await page.getByRole('option').first().waitFor();
      const found = await seriousViolations(page);
      await page.keyboard.press('Escape');
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      found.push(...(await seriousViolations(page)));

      const place = await stage.ownPlaceWithKeys();
      const signIn = await (await stage.visitor(place.url, { theme, hasAxe: true })).open('/');
      await signIn.getByLabel('Key', { exact: true }).fill('sdr_wrong');
      await signIn.getByRole('button', { name: 'Sign in' }).click();
      await signIn.getByRole('alert').first().waitFor();
      found.push(...(await seriousViolations(signIn)));
      expect(found).toEqual([]);
    });
  }
});
