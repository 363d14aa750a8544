import { describe, expect } from 'vitest';
import { seriousViolations } from '../harness/axe.js';
import { demoPaths, settled } from '../harness/pages.js';
import { PHONE } from '../harness/visitor.js';
import { type Stage, walk } from '../harness/walk.js';

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
