/**
 * The address under which a browser finds the app. The server carries the app itself. SEDERUNT_WALKS_APP names another one: `build`
 * builds it from its sources, and a path is the folder of a built one. A small server then stands in front, which sends these files
 * under the policy that the server would send, and passes all else on.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { build } from 'vite';
import { APP } from './paths.js';
import { passOn } from './proxy.js';

export interface Front {
  url: string;
  close: () => Promise<void>;
}

export interface BuiltApp {
  /** Null where the server carries the app. */
  folder: string | null;
  remove: () => Promise<void>;
}

/** The policy of the app's pages. */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

const SERVERS_OWN =
  /^\/((api|auth|threads|store|v1|ai|ag-ui|views|mcp|metrics|healthz|readyz|openapi\.json)(\/|$)|assets\/view-form\.)/;
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

export async function findApp(): Promise<BuiltApp> {
  const choice = process.env['SEDERUNT_WALKS_APP'];
  if (choice === undefined || choice === '') return { folder: null, remove: () => Promise.resolve() };
  if (choice !== 'build') return { folder: choice, remove: () => Promise.resolve() };
  const folder = await mkdtemp(join(tmpdir(), 'sederunt-app-'));
  await build({
    configFile: join(APP, 'vite.config.ts'),
    logLevel: 'error',
    build: { outDir: folder, emptyOutDir: true },
  });
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

function readFile(folder: string, path: string): Buffer | null {
  try {
    return readFileSync(join(folder, normalize(path)));
  } catch {
    return null;
  }
}

function files(folder: string): RequestListener {
  return (asked, answered) => {
    const { pathname } = new URL(asked.url ?? '/', 'http://127.0.0.1');
    const isFile = extname(pathname) !== '' && pathname.startsWith('/assets/');
    const bytes = readFile(folder, isFile ? pathname : '/index.html');
    if (bytes === null) {
      answered.writeHead(404).end();
      return;
    }
    const type = isFile ? (TYPES[extname(pathname)] ?? 'application/octet-stream') : 'text/html; charset=utf-8';
    answered
      .writeHead(200, { 'content-type': type, 'cache-control': 'no-cache', 'content-security-policy': POLICY })
      .end(bytes);
  };
}

/** A local server answers only requests whose Host and Origin name it. */
function toServer(server: string): (headers: IncomingHttpHeaders) => IncomingHttpHeaders {
  const { host, origin } = new URL(server);
  return (headers) => ({ ...headers, host, ...(headers.origin === undefined ? {} : { origin }) });
}

async function inFront(server: string, folder: string): Promise<Front> {
  const [own, passed] = [files(folder), passOn(server, toServer(server))];
  const front = createServer((asked, answered) => (SERVERS_OWN.test(asked.url ?? '') ? passed : own)(asked, answered));
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  const address = front.address();
  if (address === null || typeof address === 'string') throw new Error('A TCP server has an address with a port.');
  const close = () =>
    new Promise<void>((resolve) => {
      front.close(() => resolve());
      front.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${address.port}`, close };
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
  return folder === null ? served(server) : inFront(server, folder);
}
