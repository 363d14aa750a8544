/**
 * The address under which a browser finds the app. The server carries the app itself. SEDERUNT_WALKS_APP names another one: `build`
 * builds it from its sources, and a path is the folder of a built one. Vite's preview then stands in front of the server, under the
 * same content security policy.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, preview } from 'vite';
import { APP } from './paths.js';

export interface Front {
  url: string;
  close: () => Promise<void>;
}

const config = join(APP, 'vite.config.ts');

export interface BuiltApp {
  /** Null where the server carries the app. */
  folder: string | null;
  remove: () => Promise<void>;
}

export async function findApp(): Promise<BuiltApp> {
  const choice = process.env['SEDERUNT_WALKS_APP'];
  if (choice === undefined || choice === '') return { folder: null, remove: () => Promise.resolve() };
  if (choice !== 'build') return { folder: choice, remove: () => Promise.resolve() };
  const folder = await mkdtemp(join(tmpdir(), 'sederunt-app-'));
  await build({ configFile: config, logLevel: 'error', build: { outDir: folder, emptyOutDir: true } });
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function previewed(server: string, folder: string): Promise<Front> {
  // The configuration reads where the server is when it is loaded.
  process.env['SEDERUNT_URL'] = server;
  const front = await preview({
    configFile: config,
    logLevel: 'silent',
    build: { outDir: folder },
    preview: { host: '127.0.0.1', port: 0 },
  });
  const url = front.resolvedUrls?.local[0];
  if (url === undefined) throw new Error('The preview has no address.');
  return { url: url.replace(/\/$/, ''), close: () => front.close() };
}

async function served(server: string): Promise<Front> {
  const page = await fetch(`${server}/inbox`, { headers: { accept: 'text/html' } });
  if (!page.ok || !(await page.text()).includes('<div id="app"')) {
    throw new Error(
      `The server at ${server} does not carry the app; SEDERUNT_WALKS_APP=build puts one in front of it.`,
    );
  }
  return { url: server, close: () => Promise.resolve() };
}

/** Puts the app before a server; `folder` is that of a built app. */
export function openFront(server: string, folder: string | null): Promise<Front> {
  return folder === null ? served(server) : previewed(server, folder);
}
