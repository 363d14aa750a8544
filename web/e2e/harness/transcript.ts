/** The transcript of a session on the screen. */

import type { Locator, Page } from 'playwright-core';
import { until } from './waiting.js';

const SCROLLER = '.sdr-scroller';

export async function openSession(page: Page, session: string): Promise<void> {
  const path = `/sessions/${encodeURIComponent(session)}`;
  if (new URL(page.url()).pathname !== path) await page.goto(new URL(path, page.url()).href);
  await page.locator('.sdr-transcript[data-phase="live"]').waitFor();
}

export function rowOf(page: Page, sequence: number): Locator {
  return page.locator(`[data-seq="${sequence}"]`);
}

/** Goes through the transcript from its oldest loaded row to its newest, and returns the sequences of all rows. */
export function shownSequences(page: Page): Promise<number[]> {
  return page.locator(SCROLLER).evaluate(async (scroller) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const seen: number[] = [];
    scroller.scrollTop = 0;
    for (;;) {
      await frame();
      for (const row of scroller.querySelectorAll<HTMLElement>('[data-seq]')) {
        const sequence = Number(row.dataset['seq']);
        if (!seen.includes(sequence)) seen.push(sequence);
      }
      const doubled = [...scroller.querySelectorAll<HTMLElement>('[data-seq]')].map((row) => row.dataset['seq']);
      if (new Set(doubled).size !== doubled.length) throw new Error(`A row is shown twice: ${doubled.join()}`);
      if (scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2) return seen;
      scroller.scrollTop += scroller.clientHeight / 2;
    }
  });
}

export interface Eye {
  sequence: number;
  top: number;
}

/** The row under the reader's eye, and where it is. */
export function rowUnderEye(page: Page): Promise<Eye> {
  return page.locator(SCROLLER).evaluate((scroller) => {
    const middle = scroller.getBoundingClientRect().top + scroller.clientHeight / 2;
    for (const row of scroller.querySelectorAll<HTMLElement>('[data-seq]')) {
      const { top, bottom } = row.getBoundingClientRect();
      if (top <= middle && bottom > middle) return { sequence: Number(row.dataset['seq']), top };
    }
    throw new Error('There is no row under the eye.');
  });
}

/** How far the row moves, at most, in the frames from now until `isDone` holds in the page. */
export function driftOf(page: Page, eye: Eye, loadedBefore: number): Promise<number> {
  return page.locator(SCROLLER).evaluate(
    async (scroller, { sequence, top, height }) => {
      const until = performance.now() + 5_000;
      let drift = 0;
      let framesAfter = 0;
      while (framesAfter < 15) {
        await new Promise((done) => requestAnimationFrame(done));
        const row = scroller.querySelector(`[data-seq="${sequence}"]`);
        drift = Math.max(
          drift,
          row === null ? Number.POSITIVE_INFINITY : Math.abs(row.getBoundingClientRect().top - top),
        );
        if (scroller.scrollHeight !== height) framesAfter++;
        if (performance.now() > until) throw new Error('The transcript has not grown.');
      }
      return drift;
    },
    { ...eye, height: loadedBefore },
  );
}

export function heightOf(page: Page): Promise<number> {
  return page.locator(SCROLLER).evaluate((scroller) => scroller.scrollHeight);
}

/** Scrolls there, and waits until the rows stand still. */
export async function scrollTo(page: Page, top: number): Promise<void> {
  // A script may set the place between two frames, while the transcript goes on following its end; a person's scrolling is told
  // to the page before each frame.
  await page.locator(SCROLLER).evaluate(async (scroller, to) => {
    const isAtEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
    do {
      scroller.scrollTop = to;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    } while (isAtEnd());
  }, top);
  let before = '';
  await until('the rows stand still', async () => {
    const now = JSON.stringify(await rowUnderEye(page).catch(() => null));
    const isSame = now !== 'null' && now === before;
    before = now;
    return isSame;
  });
}
