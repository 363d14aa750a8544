import { expect } from 'vitest';
import { seriousViolations } from '../harness/axe.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';

walk('a page that breaks its policy, throws, or has a button without a name is noticed by the walks', async (stage) => {
  const visitor = await stage.visitor(stage.shared.url, { hasAxe: true });
  const page = await visitor.open('/inbox');
  await page.locator('main').waitFor();
  expect(await seriousViolations(page)).toEqual([]);
  await page.evaluate(() => {
    document.querySelector('main')?.append(document.createElement('button'));
    const image = document.createElement('img');
    image.alt = 'remote';
    image.src = 'http://127.0.0.1:9/image.png';
    document.body.append(image);
    setTimeout(() => {
      throw new Error('planted');
    });
  });
  const found = await until('both problems are noticed', () => visitor.problems.length >= 2 && visitor.problems);
  expect(found.join('\n')).toMatch(/img-src/);
  expect(found.join('\n')).toMatch(/planted/);
  expect((await seriousViolations(page)).join('\n')).toMatch(/button-name/);
  // They were planted, and are no reason for this walk to fail.
  visitor.problems.length = 0;
});
