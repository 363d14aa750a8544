/** How Chromium is started. It reaches nothing but this machine. */
import { existsSync } from 'node:fs';
import { type BrowserServer, chromium } from 'playwright-core';
import { CHROMIUM } from './paths.js';

const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];

export function startChromium(further: readonly string[] = []): Promise<BrowserServer> {
  if (!existsSync(CHROMIUM))
    throw new Error(`There is no Chromium at ${CHROMIUM}: run scripts/setup, or set SEDERUNT_CHROMIUM.`);
  return chromium.launchServer({ executablePath: CHROMIUM, headless: true, args: [...ARGS, ...further] });
}
