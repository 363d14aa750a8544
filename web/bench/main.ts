/**
 * Measures the app against its bars, on the real server and in Chromium.
 *
 *   npm run bench             the bars
 *   npm run bench -- --short  the same in the short form, for machines that check every change
 *   npm run bench -- --plants the slow variants too: each must break the bars that it is made for
 *   … --any-load              also on a busy machine, where the figures say nothing: for work on this script
 *   … --only NAME             only the measurements whose names contain this
 *
 * Ends with 1 where a bar is missed or a plant is not caught, and with 2 where nothing was measured because the machine is busy.
 */
import { loadavg } from 'node:os';
import { BARS, type BarName, type Figures, missed } from './bars.js';
import { measureLatency, measureReturn } from './living.js';
import { measureFirstLoad, measureInMemory, measureOpening } from './opening.js';
import { PLANTS, type PlantName } from './plants.js';
import { measureDrift, measureScrolling } from './reading.js';
import { Scene } from './scene.js';

const LOAD_MAX = 1;
const IDLE_WAIT_MS = 180_000;
const LOAD_POLL_MS = 5_000;

const MEASUREMENTS: Record<
  string,
  { measure: (scene: Scene, plant: PlantName | null) => Promise<Figures>; plants: readonly PlantName[] }
> = {
  'first load': { measure: measureFirstLoad, plants: ['uncompressed', 'slow-start'] },
  opening: { measure: measureOpening, plants: ['slow-page'] },
  'in memory': { measure: measureInMemory, plants: ['slow-rows'] },
  latency: { measure: measureLatency, plants: ['slow-stream'] },
  drift: { measure: measureDrift, plants: ['drift'] },
  return: { measure: measureReturn, plants: ['late-loss', 'late-return'] },
  scrolling: { measure: measureScrolling, plants: ['long-tasks', 'all-rows', 'leak'] },
};

/** The bars that no slow variant of their measurement breaks: of these nobody knows whether they can be missed. */
function unplanted(): BarName[] {
  const plants = Object.values(MEASUREMENTS).flatMap((measurement) => measurement.plants);
  const caught = new Set<string>(plants.flatMap((plant) => PLANTS[plant].catches));
  return (Object.keys(BARS) as BarName[]).filter((name) => !caught.has(name));
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

const load = (): number => loadavg()[0] ?? Number.NaN;

async function isIdle(): Promise<boolean> {
  const end = Date.now() + IDLE_WAIT_MS;
  if (load() >= LOAD_MAX) say(`The load is ${load().toFixed(2)}; waiting until it is below ${LOAD_MAX}.`);
  while (load() >= LOAD_MAX) {
    if (Date.now() > end) return false;
    await new Promise((done) => setTimeout(done, LOAD_POLL_MS));
  }
  return true;
}

function line(name: BarName, figure: number, verdict: string): string {
  const { what, unit, max } = BARS[name];
  const of = `${figure.toFixed(figure < 10 ? 1 : 0)} ${unit}`.trim();
  return `  ${verdict.padEnd(10)} ${what.padEnd(56)} ${of.padStart(10)}   (≤ ${max} ${unit})`;
}

function report(figures: Figures): boolean {
  const missing = missed(figures);
  for (const [name, figure] of Object.entries(figures) as [BarName, number][]) {
    say(line(name, figure, missing.includes(name) ? 'MISSED' : 'reached'));
  }
  return missing.length === 0;
}

/** A plant is caught when it breaks each bar that it is made for. */
function reportPlant(plant: PlantName, figures: Figures): boolean {
  const broken = missed(figures);
  const { what, catches } = PLANTS[plant];
  say(`  planted: ${what}`);
  for (const name of catches)
    say(line(name, figures[name] ?? Number.NaN, broken.includes(name) ? 'caught' : 'NOT CAUGHT'));
  return catches.every((name) => broken.includes(name));
}

async function measureAll(scene: Scene, hasPlants: boolean, only: string): Promise<boolean> {
  let isGood = true;
  for (const [name, { measure, plants }] of Object.entries(MEASUREMENTS)) {
    if (!name.includes(only)) continue;
    say(name);
    isGood = report(await measure(scene, null)) && isGood;
    for (const plant of hasPlants ? plants : []) isGood = reportPlant(plant, await measure(scene, plant)) && isGood;
  }
  return isGood;
}

export async function main(args: readonly string[]): Promise<number> {
  const only = args.includes('--only') ? (args[args.indexOf('--only') + 1] ?? '') : '';
  if (!args.includes('--any-load') && !(await isIdle())) {
    say(
      `Nothing was measured: the load of this machine has stayed at ${load().toFixed(2)}, and the bars are for an idle one.`,
    );
    return 2;
  }
  const bars = unplanted();
  if (bars.length > 0) throw new Error(`No slow variant breaks ${bars.join(', ')}.`);
  const scene = await Scene.set(args.includes('--short'));
  try {
    return (await measureAll(scene, args.includes('--plants'), only)) ? 0 : 1;
  } finally {
    await scene.close();
  }
}
