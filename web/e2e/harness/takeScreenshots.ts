/** Screenshots of the main pages with the demo's content, in both themes. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { findApp } from './appFront.js';
import { startChromium } from './chromium.js';
import { demoPaths, settled } from './pages.js';
import { SCREENSHOTS } from './paths.js';
import { openPlace } from './place.js';
import { Visitor } from './visitor.js';

const SIZE = { width: 1180, height: 720 };

export async function takeScreenshots(): Promise<void> {
  const app = await findApp();
  const place = await openPlace('sqlite', app.folder, { args: ['--demo'] });
  const server = await startChromium();
  try {
    await mkdir(SCREENSHOTS, { recursive: true });
    const browser = await chromium.connect(server.wsEndpoint());
    const { today, approval, sessions, session, steps, chat } = await demoPaths(place.api);
    for (const theme of ['light', 'dark'] as const) {
      const visitor = await Visitor.arrive(browser, place.url, { theme, size: SIZE });
      for (const [name, path] of Object.entries({ today, approval, sessions, session, steps, chat })) {
        const page = await visitor.open(path);
        await settled(visitor, page);
        await page.screenshot({ path: join(SCREENSHOTS, `${name}-${theme}.png`), animations: 'disabled' });
        await page.close();
      }
    }
  } finally {
    await server.close();
    await place.close();
    await app.remove();
  }
}
