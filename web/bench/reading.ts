/** How the transcript of a long session behaves while events arrive: long tasks, rows, memory, and rows that move. */
import type { Page } from 'playwright-core';
import { driftOf, heightOf, openSession, rowUnderEye, scrollTo } from '../e2e/harness/transcript.js';
import { externalSession, say } from '../e2e/harness/world.js';
import { type Figures, missed } from './bars.js';
import { textOfLine } from './longSession.js';
import type { PlantName } from './plants.js';
import type { Scene } from './scene.js';

const APPENDS_PER_SECOND = 200;
const BATCH_MS = 50;
const JUMPS = 40;
const BEST_OF = 3;
const SHORT_S = 10;
const LONG_S = 60;
const LOADS = 10;

const SEE_TASKS = `window.tasks = [];
new PerformanceObserver((list) => { for (const task of list.getEntries()) window.tasks.push(task.duration); }).observe({ entryTypes: ['longtask'] });`;

interface Seen {
  tasks: number[];
  rows: number;
  heap: number;
}

/** Appends at the rate until the page has scrolled and jumped for this long. */
async function scrolled(scene: Scene, page: Page, session: string, seconds: number): Promise<Seen> {
  let isOpen = true;
  const began = performance.now();
  const appending = (async () => {
    for (let written = 0; isOpen; ) {
      const due = Math.floor(((performance.now() - began) / 1000) * APPENDS_PER_SECOND);
      if (due > written)
        await say(
          scene.place.api,
          session,
          Array.from({ length: Math.min(500, due - written) }, (_, at) => textOfLine(written + at)),
        );
      written = Math.max(written, due);
      await new Promise((done) => setTimeout(done, BATCH_MS));
    }
  })();
  try {
    return await page.evaluate(
      async ({ ms, jumps }) => {
        const frame = () => new Promise((done) => requestAnimationFrame(done));
        const scroller = document.querySelector('.sdr-scroller');
        if (scroller === null) throw new Error('There is no transcript.');
        const seen = window as unknown as { tasks: number[] };
        seen.tasks.length = 0;
        const start = performance.now();
        let rows = 0;
        let jumped = 0;
        while (performance.now() - start < ms) {
          const part = (performance.now() - start) / ms;
          if (part > (jumped + 1) / (jumps + 1)) {
            scroller.scrollTop = Math.random() * scroller.scrollHeight;
            jumped++;
          } else scroller.scrollTop -= 60;
          await frame();
          rows = Math.max(rows, scroller.querySelectorAll('[data-seq]').length);
        }
        const { memory } = performance as unknown as { memory: { usedJSHeapSize: number } };
        return { tasks: seen.tasks, rows, heap: memory.usedJSHeapSize / 1e6 };
      },
      { ms: seconds * 1000, jumps: JUMPS },
    );
  } finally {
    isOpen = false;
    await appending;
  }
}

function scrolledOnce(scene: Scene, plant: PlantName | null, seconds: number): Promise<Figures> {
  return scene.visit(plant, [SEE_TASKS], async (page) => {
    await page.goto(scene.address('/sessions'));
    await openSession(page, scene.long.id);
    await page.locator('.sdr-scroller [data-seq]').first().waitFor();
    const { tasks, rows, heap } = await scrolled(scene, page, scene.long.id, seconds);
    return {
      'tasks-over-50': tasks.filter((ms) => ms > 50).length,
      'longest-task': Math.max(0, ...tasks),
      rows: rows,
      heap: heap,
    };
  });
}

/** The best of three, because another process can disturb one; a fault of the app is in all of them. */
export async function measureScrolling(scene: Scene, plant: PlantName | null): Promise<Figures> {
  const seconds = scene.isShort || plant !== null ? SHORT_S : LONG_S;
  let best: Figures = {};
  for (let time = 0; time < BEST_OF; time++) {
    const figures = await scrolledOnce(scene, plant, seconds);
    if (time === 0 || missed(figures).length < missed(best).length) best = figures;
    if (missed(best).length === 0) break;
  }
  return best;
}

async function earlierDrift(page: Page): Promise<number> {
  let drift = 0;
  for (let time = 0; time < LOADS; time++) {
    await scrollTo(page, 300);
    const [eye, height] = [await rowUnderEye(page), await heightOf(page)];
    const moving = driftOf(page, eye, height);
    await page.getByRole('button', { name: /Load earlier/ }).click();
    drift = Math.max(drift, await moving);
    await page.getByRole('button', { name: 'Looking further back…' }).waitFor({ state: 'detached' });
  }
  return drift;
}

export async function measureDrift(scene: Scene, plant: PlantName | null): Promise<Figures> {
  const { api } = scene.place;
  const session = await externalSession(api, 'Read while it grows');
  for (let batch = 0; batch < 3; batch++)
    await say(
      api,
      session,
      Array.from({ length: 450 }, (_, at) => textOfLine(at)),
    );
  return scene.visit(plant, [], async (page) => {
    await page.goto(scene.address('/sessions'));
    await openSession(page, session);
    await page.locator('.sdr-scroller [data-seq]').first().waitFor();
    const earlier = await earlierDrift(page);
    await scrollTo(page, 600);
    const [eye, height] = [await rowUnderEye(page), await heightOf(page)];
    const moving = driftOf(page, eye, height);
    for (let time = 0; time < 10; time++) await say(api, session, [textOfLine(time), textOfLine(time + 1)]);
    return { 'earlier-drift': earlier, 'append-drift': await moving };
  });
}
