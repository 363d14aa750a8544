/** How fast the app begins, and how fast a long session is on the screen. */
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { type Figures, median } from './bars.js';
import type { LongSession } from './longSession.js';
import { PLANTS, type PlantName } from './plants.js';
import type { Scene } from './scene.js';

const TIMES = 3;

/** Remembers when Today was there: the pages in the sidebar, its own words, and a main thread that is free. */
const SEE_TODAY = `(() => {
  const look = () => {
    const isThere = document.querySelector('nav[aria-label="Pages"]') && (document.querySelector('main')?.innerText ?? '').trim() !== '';
    if (isThere && !document.querySelector('main [aria-busy="true"]')) setTimeout(() => { window.todayAt = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();`;

interface Loaded {
  address: string;
  bytes: number;
}

function scriptsOf(page: Page): Promise<Loaded[]> {
  return page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter((entry): entry is PerformanceResourceTiming => entry instanceof PerformanceResourceTiming)
      .filter(({ name }) => new URL(name).pathname.endsWith('.js'))
      .map(({ name, encodedBodySize }) => ({ address: name, bytes: encodedBodySize })),
  );
}

/** Vite's preview compresses nothing, so there the files are compressed here. */
async function compressed({ address }: Loaded): Promise<number> {
  const answer = await fetch(address);
  return gzipSync(Buffer.from(await answer.arrayBuffer()), { level: 9 }).length;
}

export async function measureFirstLoad(scene: Scene, plant: PlantName | null): Promise<Figures> {
  const isUncompressed = plant !== null && 'isUncompressed' in PLANTS[plant];
  const { at, scripts } = await scene.visit(plant, [SEE_TODAY], async (page) => {
    if (isUncompressed) await page.setExtraHTTPHeaders({ 'accept-encoding': 'identity' });
    await page.goto(scene.address('/'));
    const seen = await page.waitForFunction(() => (window as unknown as { todayAt?: number }).todayAt);
    return { at: (await seen.jsonValue()) ?? Number.NaN, scripts: await scriptsOf(page) };
  });
  const isCompressedHere = scene.appFolder !== null && !isUncompressed;
  const sizes = isCompressedHere ? await Promise.all(scripts.map(compressed)) : scripts.map(({ bytes }) => bytes);
  return { 'first-load-size': sizes.reduce((sum, bytes) => sum + bytes, 0) / 1000, interactive: at };
}

/** Measures in the page from the click on a link to the frame that shows the row of this sequence. */
const SEE_ROW = `window.seeRow = (sequence) => new Promise((done) => {
  addEventListener('click', () => {
    const clicked = performance.now();
    const look = () => {
      const row = document.querySelector('.sdr-scroller [data-seq="' + sequence + '"]');
      const place = row?.getBoundingClientRect();
      if (place && place.top < innerHeight && place.bottom > 0) done(performance.now() - clicked);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, { capture: true, once: true });
});`;

async function timeOfClick(page: Page, session: LongSession): Promise<number> {
  const link = page.locator(`main a[href^="/sessions/${encodeURIComponent(session.id)}"]`).first();
  await link.waitFor();
  const seen = page.evaluate(
    (last) => (window as unknown as { seeRow: (last: number) => Promise<number> }).seeRow(last),
    session.last,
  );
  await link.click();
  return seen;
}

async function openedOften(scene: Scene, plant: PlantName | null, scripts: readonly string[]): Promise<number> {
  const times: number[] = [];
  for (let time = 0; time < TIMES; time++) {
    const took = await scene.visit(plant, [SEE_ROW, ...scripts], async (page) => {
      await page.goto(scene.address(`/sessions?q=${encodeURIComponent('50,000')}`));
      return timeOfClick(page, scene.long);
    });
    times.push(took);
  }
  return median(times);
}

export async function measureOpening(scene: Scene, plant: PlantName | null): Promise<Figures> {
  return { open: await openedOften(scene, plant, []) };
}

/** Answers the first page of the session's events with all of them, made in the page and without a network. */
const ALL_AT_ONCE = (session: LongSession) => `{
  const pattern = { session_id: ${JSON.stringify(session.id)}, type: 'agent.message', role: 'assistant', metadata: {}, subthread_id: null,
    external_event_id: null, turn: null, author: null, at: '2026-01-01T00:00:00.000000Z' };
  const events = Array.from({ length: ${session.last} }, (_, at) => ({ ...pattern, sequence: ${session.last} - at,
    content: [{ type: 'text', text: 'line ' + (${session.last} - at) + ' ' + 'word '.repeat(at % 60) }] }));
  const real = window.fetch;
  window.fetch = async (...asked) => {
    const { pathname } = new URL(asked[0].url ?? asked[0], location.href);
    if (!pathname.endsWith(${JSON.stringify(`/${encodeURIComponent(session.id)}/events`)})) return real(...asked);
    const answer = new Response('{}', { headers: { 'content-type': 'application/json' } });
    answer.json = async () => ({ events, last_sequence: ${session.last}, has_more: false, next_after: null });
    return answer;
  };
}`;

export async function measureInMemory(scene: Scene, plant: PlantName | null): Promise<Figures> {
  return { 'in-memory': await openedOften(scene, plant, [ALL_AT_ONCE(scene.long)]) };
}
