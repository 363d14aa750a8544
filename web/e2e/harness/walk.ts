/**
 * `walk` is a test that visits the app in a browser. When it fails, it prints what was on the screen and saves a screenshot. It also
 * fails where a page has thrown or has broken its content security policy.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect, inject, test } from 'vitest';
import { Api } from './apiClient.js';
import { FAILURES } from './paths.js';
import { type OwnPlace, openPlace, type Place, placeOf } from './place.js';
import { SederuntServer, type ServerOptions } from './sederuntServer.js';
import { Visitor, type VisitorOptions } from './visitor.js';
import { within } from './waiting.js';

const WALK_MS = 45_000;
const CLOSE_MS = 10_000;
const SCREEN_TEXT_MAX = 3_000;

let connected: Promise<Browser> | undefined;

function browser(): Promise<Browser> {
  connected ??= chromium.connect(inject('chromium'));
  return connected;
}

export class Stage {
  readonly storeKind = inject('storeKind');
  readonly #visitors: Visitor[] = [];
  readonly #closing: (() => Promise<void>)[] = [];

  /** The server that all walks share. It runs no agents itself, so that a walk decides what happens when. */
  get shared(): Place {
    return { url: inject('sharedUrl'), api: new Api(inject('sharedServer')) };
  }

  /** A server with the content of `--demo`, part of which moves. */
  get demo(): Place {
    return { url: inject('demoUrl'), api: new Api(inject('demoServer')) };
  }

  /** A server for this walk alone. */
  async ownPlace(options: ServerOptions = {}): Promise<OwnPlace> {
    const place = await openPlace(this.storeKind, inject('appFolder'), options);
    this.#closing.push(place.close);
    return place;
  }

  /** A server for this walk alone, where people sign in; its API speaks as the owner `ann`. */
  async ownPlaceWithKeys(further: readonly string[] = []): Promise<OwnPlace> {
    const args = ['--auth', 'keys', '--workers', '0', ...further];
    const server = await SederuntServer.prepare(this.storeKind, { args });
    const made = await server.command('keys', 'create', '--role', 'owner', '--user', 'ann');
    await server.start();
    const place = await placeOf(server, inject('appFolder'), secretOf(made));
    this.#closing.push(place.close);
    return place;
  }

  /** Runs when the walk ends, however it ends. */
  onEnd(close: () => Promise<void>): void {
    this.#closing.push(close);
  }

  async visitor(base: string, options: VisitorOptions = {}): Promise<Visitor> {
    const visitor = await Visitor.arrive(await browser(), base, options);
    this.#visitors.push(visitor);
    return visitor;
  }

  problems(): string[] {
    return this.#visitors.flatMap((visitor) => visitor.problems);
  }

  pages(): Page[] {
    return this.#visitors.flatMap((visitor) => visitor.context.pages());
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#visitors.map((visitor) => visitor.context.close()));
    for (const close of this.#closing.reverse()) await close();
  }
}

function secretOf(made: unknown): string {
  if (made !== null && typeof made === 'object' && 'key' in made && typeof made.key === 'string') return made.key;
  throw new Error('The command that makes a key has printed none.');
}

async function screenOf(page: Page, name: string, number: number): Promise<string> {
  const file = join(FAILURES, `${name.replaceAll(/[^a-z0-9]+/gi, '-').slice(0, 80)}-${number}.png`);
  const shot = page.screenshot({ path: file, timeout: 3_000 }).then(
    () => file,
    () => 'no screenshot could be taken',
  );
  const text = within('Reading the screen', 3_000, page.locator('body').innerText()).catch(
    () => '(it could not be read)',
  );
  return `--- ${page.url()} (${await shot})\n${(await text).slice(0, SCREEN_TEXT_MAX)}`;
}

async function explain(stage: Stage, name: string): Promise<string> {
  await mkdir(FAILURES, { recursive: true });
  const screens = await Promise.all(stage.pages().map((page, number) => screenOf(page, name, number)));
  return [...screens, ...stage.problems()].join('\n');
}

export function walk(sentence: string, visit: (stage: Stage) => Promise<void>, timeoutMs = WALK_MS): void {
  test(sentence, { timeout: timeoutMs + CLOSE_MS * 2 }, async () => {
    const stage = new Stage();
    try {
      await within('The walk', timeoutMs, visit(stage));
      expect(stage.problems()).toEqual([]);
    } catch (error) {
      const screens = await explain(stage, `${inject('storeKind')} ${sentence}`);
      if (error instanceof Error) error.message += `\nOn the screen:\n${screens}`;
      throw error;
    } finally {
      await stage.close();
    }
  });
}
