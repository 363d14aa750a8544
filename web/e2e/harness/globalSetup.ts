/** What all walks on one kind of store share: Chromium, the built app, a quiet server and one with the demo's content. */
import type { TestProject } from 'vitest/node';
import { findApp } from './appFront.js';
import { startChromium } from './chromium.js';
import { FIXTURES } from './paths.js';
import { openPlace } from './place.js';
import type { StoreKind } from './store.js';

declare module 'vitest' {
  export interface ProvidedContext {
    storeKind: StoreKind;
    chromium: string;
    appFolder: string | null;
    sharedUrl: string;
    sharedServer: string;
    demoUrl: string;
    demoServer: string;
  }
}

const SHARED = ['--workers', '0', '--model', `scripted:${FIXTURES}/chat.json`];

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const kind: StoreKind = project.name === 'postgres' ? 'postgres' : 'sqlite';
  const closing: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const one of closing.reverse()) await one();
  };
  try {
    const { folder, remove } = await findApp();
    closing.push(remove);
    const shared = await openPlace(kind, folder, { args: SHARED });
    closing.push(shared.close);
    const demo = await openPlace(kind, folder, { args: ['--demo'] });
    closing.push(demo.close);
    const chromium = await startChromium();
    closing.push(() => chromium.close());
    project.provide('storeKind', kind);
    project.provide('chromium', chromium.wsEndpoint());
    project.provide('appFolder', folder);
    project.provide('sharedUrl', shared.url);
    project.provide('sharedServer', shared.server.url);
    project.provide('demoUrl', demo.url);
    project.provide('demoServer', demo.server.url);
  } catch (error) {
    await close();
    throw error;
  }
  return close;
}
