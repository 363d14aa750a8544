/** How fast the page shows what happens: events, text that is being written, a lost server, and one that has come back. */
import type { Page } from 'playwright-core';
import { openSession } from '../e2e/harness/transcript.js';
import { until } from '../e2e/harness/waiting.js';
import { externalSession, runningRun, say } from '../e2e/harness/world.js';
import { type Figures, p95 } from './bars.js';
import type { PlantName } from './plants.js';
import type { Scene } from './scene.js';

const SHORT_TIMES = 40;
const LONG_TIMES = 200;

/** The clock of the page and of this script, which run on one machine. */
const now = () => performance.timeOrigin + performance.now();

/** Resolves to the time of the first frame in which the transcript shows the text. */
const SEE_TEXT = `window.seeText = (text) => new Promise((done) => {
  const look = () => document.querySelector('.sdr-scroller')?.textContent.includes(text)
    ? done(performance.timeOrigin + performance.now()) : requestAnimationFrame(look);
  look();
});`;

function seeText(page: Page, text: string): Promise<number> {
  return page.evaluate(
    (what) => (window as unknown as { seeText: (text: string) => Promise<number> }).seeText(what),
    text,
  );
}

async function delays(
  page: Page,
  times: number,
  name: string,
  send: (text: string) => Promise<unknown>,
): Promise<number> {
  const took: number[] = [];
  for (let time = 0; time < times; time++) {
    const text = `${name}-${time};`;
    const seen = seeText(page, text);
    // The page is looking before the text is sent.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    const sent = now();
    await send(text);
    took.push((await seen) - sent);
  }
  return p95(took);
}

export function measureLatency(scene: Scene, plant: PlantName | null): Promise<Figures> {
  const { api } = scene.place;
  const times = scene.isShort || plant !== null ? SHORT_TIMES : LONG_TIMES;
  return scene.visit(plant, [SEE_TEXT], async (page) => {
    const session = await externalSession(api, 'Followed');
    await say(api, session, ['first']);
    await page.goto(scene.address('/sessions'));
    await openSession(page, session);
    const event = await delays(page, times, 'event', (text) => say(api, session, [text]));
    const run = await runningRun(api);
    await openSession(page, run.session);
    const delta = await delays(page, times, 'delta', (text) =>
      api.post(`/api/sessions/${run.session}/delta`, { epoch: run.epoch, text: `${text} ` }),
    );
    await api.post(`/api/sessions/${run.session}/complete`, { epoch: run.epoch, text: 'done' });
    return { event, delta };
  });
}

const SEE_PHASE = `window.seePhase = (phase) => new Promise((done) => {
  const look = () => document.querySelector('.sdr-transcript')?.dataset.phase === phase
    ? done(performance.timeOrigin + performance.now()) : requestAnimationFrame(look);
  look();
});`;

function seePhase(page: Page, phase: string): Promise<number> {
  return page.evaluate(
    (what) => (window as unknown as { seePhase: (phase: string) => Promise<number> }).seePhase(what),
    phase,
  );
}

export async function measureReturn(scene: Scene, plant: PlantName | null): Promise<Figures> {
  const place = await scene.otherPlace();
  try {
    const session = await externalSession(place.api, 'Lost and found');
    await say(place.api, session, ['first']);
    return await scene.visit(plant, [SEE_PHASE], async (page) => {
      await page.goto(new URL('/sessions', place.url).href);
      await openSession(page, session);
      const lost = seePhase(page, 'reconnecting');
      const killed = now();
      await place.server.kill();
      const lostAfter = (await lost) - killed;
      const back = seePhase(page, 'live');
      await place.server.start();
      const listening = now();
      const phase = await until('the page is live again', () => back, 30_000);
      return { lost: lostAfter, 'live-again': Math.max(0, phase - listening) };
    });
  } finally {
    await place.close();
  }
}
