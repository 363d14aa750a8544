/** A person's browser: its own cookies and storage, any number of tabs, and a record of what went wrong in them. */
import { readFileSync } from 'node:fs';
import type { Browser, BrowserContext, Page, Request } from 'playwright-core';
import { AXE } from './paths.js';

const STEP_MS = 15_000;
export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export interface VisitorOptions {
  theme?: 'light' | 'dark';
  size?: { width: number; height: number };
  /** `reduce` unless said otherwise, so that nothing moves while a walk looks. */
  motion?: 'reduce' | 'no-preference';
  /** Makes `axe` known to the pages. */
  hasAxe?: boolean;
  /** Takes certificates that no authority has signed. */
  acceptsAnyCertificate?: boolean;
}

/** Tells the walk what the page's policy has refused. Runs in the page, before its own scripts. */
const REPORT_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) =>
  reportViolation(event.effectiveDirective + ' ' + event.blockedURI + ' ' + event.sourceFile + ' ' + event.sample), true);`;

export class Visitor {
  readonly context: BrowserContext;
  /** What no page may do: throw, or break its policy. */
  readonly problems: string[] = [];
  readonly #base: string;
  readonly #asked = new Map<Page, Set<Request>>();

  private constructor(context: BrowserContext, base: string) {
    this.context = context;
    this.#base = base;
  }

  /** Whether the page waits for an answer; streams do not count. */
  isWaiting(page: Page): boolean {
    return (this.#asked.get(page)?.size ?? 0) > 0;
  }

  static async arrive(browser: Browser, base: string, options: VisitorOptions = {}): Promise<Visitor> {
    const context = await browser.newContext({
      viewport: options.size ?? DESKTOP,
      colorScheme: options.theme ?? 'light',
      reducedMotion: options.motion ?? 'reduce',
      locale: 'en-GB',
      timezoneId: 'UTC',
      ignoreHTTPSErrors: options.acceptsAnyCertificate ?? false,
    });
    context.setDefaultTimeout(STEP_MS);
    const visitor = new Visitor(context, base);
    await context.exposeBinding('reportViolation', ({ page }, what: string) => {
      visitor.problems.push(`${page.url()} broke its policy: ${what}`);
    });
    await context.addInitScript(REPORT_VIOLATIONS);
    if (options.hasAxe) await context.addInitScript(readFileSync(AXE, 'utf8'));
    context.on('weberror', (error) => visitor.problems.push(`${error.page()?.url()} threw: ${error.error().stack}`));
    return visitor;
  }

  /** Opens a tab. */
  async open(path: string): Promise<Page> {
    const page = await this.context.newPage();
    const waiting = new Set<Request>();
    this.#asked.set(page, waiting);
    page.on('request', (request) => {
      if (!new URL(request.url()).pathname.endsWith('/stream')) waiting.add(request);
    });
    page.on('requestfinished', (request) => waiting.delete(request));
    page.on('requestfailed', (request) => waiting.delete(request));
    await page.goto(new URL(path, this.#base).href, { waitUntil: 'domcontentloaded' });
    return page;
  }
}
