/** What the measurements share: a browser, a quiet server with one long session, and visitors who have a plant or none. */
import { type Browser, chromium, type Page } from 'playwright-core';
import { findApp } from '../e2e/harness/appFront.js';
import { startChromium } from '../e2e/harness/chromium.js';
import { type OwnPlace, openPlace } from '../e2e/harness/place.js';
import { Visitor } from '../e2e/harness/visitor.js';
import { type LongSession, makeLongSession } from './longSession.js';
import { PLANTS, type PlantName } from './plants.js';

const QUIET = ['--workers', '0'];
/** Times are measured inside of the page; a wait that takes this long is a failure of the script. */
const WAIT_MS = 30_000;

export class Scene {
  readonly place: OwnPlace;
  readonly long: LongSession;
  readonly isShort: boolean;
  /** Null where the server carries the app. */
  readonly appFolder: string | null;
  readonly #browser: Browser;
  readonly #closing: (() => Promise<void>)[];

  private constructor(
    parts: Pick<Scene, 'place' | 'long' | 'isShort' | 'appFolder'>,
    browser: Browser,
    closing: (() => Promise<void>)[],
  ) {
    this.place = parts.place;
    this.long = parts.long;
    this.isShort = parts.isShort;
    this.appFolder = parts.appFolder;
    this.#browser = browser;
    this.#closing = closing;
  }

  static async set(isShort: boolean): Promise<Scene> {
    const closing: (() => Promise<void>)[] = [];
    try {
      const { folder: appFolder, remove } = await findApp();
      closing.push(remove);
      const place = await openPlace('sqlite', appFolder, { args: QUIET });
      closing.push(place.close);
      const server = await startChromium(['--enable-precise-memory-info']);
      closing.push(() => server.close());
      const browser = await chromium.connect(server.wsEndpoint());
      const long = await makeLongSession(place.api);
      return new Scene({ place, long, isShort, appFolder }, browser, closing);
    } catch (error) {
      for (const close of closing.reverse()) await close();
      throw error;
    }
  }

  async close(): Promise<void> {
    for (const close of this.#closing.reverse()) await close();
  }

  /** Another server, which may be killed. */
  otherPlace(): Promise<OwnPlace> {
    return openPlace('sqlite', this.appFolder, { args: QUIET });
  }

  /** Runs `look` in a new tab of a browser that has seen nothing yet. Its pages run the scripts, then the plant, then their own. */
  async visit<T>(plant: PlantName | null, scripts: readonly string[], look: (page: Page) => Promise<T>): Promise<T> {
    const visitor = await Visitor.arrive(this.#browser, this.place.url);
    visitor.context.setDefaultTimeout(WAIT_MS);
    try {
      for (const script of scripts) await visitor.context.addInitScript(script);
      if (plant !== null) await visitor.context.addInitScript(PLANTS[plant].script);
      const page = await visitor.context.newPage();
      return await look(page);
    } finally {
      await visitor.context.close();
    }
  }

  address(path: string): string {
    return new URL(path, this.place.url).href;
  }
}
