import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { seriousViolations } from '../harness/axe.js';
import { demoPaths, settled } from '../harness/pages.js';
import { DESKTOP, PHONE } from '../harness/visitor.js';
import { until } from '../harness/waiting.js';
import { type Stage, walk } from '../harness/walk.js';
import { runningRun } from '../harness/world.js';

async function violationsOf(
  stage: Stage,
  theme: 'light' | 'dark',
  size?: { width: number; height: number },
): Promise<string[]> {
  const visitor = await stage.visitor(stage.demo.url, { theme, hasAxe: true, ...(size === undefined ? {} : { size }) });
  const found: string[] = [];
  for (const [name, path] of Object.entries(await demoPaths(stage.demo.api))) {
    const page = await visitor.open(path);
    await settled(visitor, page);
    found.push(...(await seriousViolations(page)).map((violation) => `${name} (${path}): ${violation}`));
    await page.close();
  }
  return found;
}

describe('axe finds nothing serious or critical', () => {
  walk(
    'on the pages in the light theme',
    async (stage) => expect(await violationsOf(stage, 'light')).toEqual([]),
    90_000,
  );
  walk(
    'on the pages in the dark theme',
    async (stage) => expect(await violationsOf(stage, 'dark')).toEqual([]),
    90_000,
  );
  walk(
    'on the pages on a telephone',
    async (stage) => expect(await violationsOf(stage, 'light', PHONE)).toEqual([]),
    90_000,
  );

  for (const theme of ['light', 'dark'] as const) {
    walk(`in the palette, the map of the keys and the sign-in page, in the ${theme} theme`, async (stage) => {
      const visitor = await stage.visitor(stage.demo.url, { theme, hasAxe: true });
      const page = await visitor.open('/inbox');
      await settled(visitor, page);
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

/** A window of the usual size at 200 % has half of the pixels to either side. */
const ZOOMED = { width: DESKTOP.width / 2, height: DESKTOP.height / 2 };

/** What can be pressed or written into and is cut off at the side, where nothing scrolls to it. */
function outOfReach(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const scrolls = (element: Element | null): boolean =>
      element !== null && (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    const cut = [...document.querySelectorAll('a[href], button, input, select, textarea')].filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      const isThere = width > 1 && element.checkVisibility({ visibilityProperty: true });
      return isThere && (left < -1 || right > innerWidth + 1) && !scrolls(element.parentElement);
    });
    const named = cut.map(
      (element) => `${element.tagName} ${element.getAttribute('aria-label') ?? element.textContent}`,
    );
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth > clientWidth + 1 ? [...named, `the page is ${scrollWidth} wide in ${clientWidth}`] : named;
  });
}

walk(
  'at 200 % every page is whole: nothing is cut off at the side, and its content has room',
  async (stage) => {
    const visitor = await stage.visitor(stage.demo.url, { size: ZOOMED, hasAxe: true });
    const found: string[] = [];
    for (const [name, path] of Object.entries(await demoPaths(stage.demo.api))) {
      const page = await visitor.open(path);
      await settled(visitor, page);
      const main = await page.locator('main').boundingBox();
      const problems = [...(await outOfReach(page)), ...(await seriousViolations(page))];
      if (main === null || main.height < ZOOMED.height / 3) problems.push(`the page has ${main?.height} px of height`);
      found.push(...problems.map((problem) => `${name} (${path}): ${problem}`));
      await page.close();
    }
    expect(found).toEqual([]);
  },
  90_000,
);

const moving = (page: Page) =>
  page.evaluate(() => document.getAnimations().filter((one) => one.playState === 'running').length);

walk('nothing moves for those who want no motion, and what runs breathes for the others', async (stage) => {
  const { api, url } = stage.shared;
  const { session, epoch } = await runningRun(api);
  for (const motion of ['reduce', 'no-preference'] as const) {
    const visitor = await stage.visitor(url, { motion });
    const page = await visitor.open('/');
    await page.getByRole('list', { name: 'Running', exact: true }).waitFor();
    if (motion === 'reduce') expect(await moving(page)).toBe(0);
    else await until('the dot of what runs breathes', async () => (await moving(page)) > 0);
    if (motion === 'no-preference') continue;
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    expect(await moving(page)).toBe(0);
    await page.goto(new URL(`/sessions/${session}`, url).href);
    await page.locator('.sdr-transcript[data-phase="live"]').waitFor();
    expect(await moving(page)).toBe(0);
  }
  await api.post(`/api/sessions/${session}/complete`, { epoch, text: 'done' });
});
