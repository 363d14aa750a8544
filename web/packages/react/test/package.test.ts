// @vitest-environment node
/** The package as others get it: built, packed, and installed into a fresh folder without a network. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { publint } from 'publint';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateSchema } from '../scripts/generate-api.mjs';

const root = resolve(import.meta.dirname, '..');
const modules = resolve(root, '../../node_modules');
const folder = mkdtempSync(join(tmpdir(), 'sederunt-react-'));
let packed: string[] = [];

function run(command: string, args: readonly string[], cwd = folder): string {
  return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** All that the package needs, from the folder of this workspace. */
function installed(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, `file:${join(modules, name)}`]));
}

beforeAll(() => {
  run(process.execPath, ['scripts/build.mjs'], root);
  const [{ filename, files }] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', folder], root));
  packed = files.map(({ path }: { path: string }) => path);
  const peers = ['react', 'react-dom', '@tanstack/react-query', '@types/react', '@types/react-dom'];
  const further = ['virtua', 'eventsource-parser', 'scheduler', '@tanstack/query-core', 'csstype'];
  const dependencies = { '@sederunt/react': `file:${filename}`, ...installed([...peers, ...further]) };
  const manifest = { name: 'fresh', private: true, type: 'module', dependencies };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  run('npm', ['install', '--offline', '--install-links', '--ignore-scripts', '--no-audit', '--no-fund']);
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the types of the API', () => {
  it('are those of the checked-in description', async () => {
    const checkedIn = readFileSync(join(root, 'src/api/schema.ts'), 'utf8');
    expect(checkedIn === (await generateSchema()), 'run `npm run api` in web/').toBe(true);
  }, 60_000);
});

describe('the packed package', () => {
  it('holds what it needs and nothing else', () => {
    expect(packed).toEqual(
      expect.arrayContaining([
        'README.md',
        'package.json',
        'dist/index.js',
        'dist/index.d.ts',
        'dist/styles.css',
        'dist/LICENSE-MIT',
        'dist/LICENSE-APACHE',
      ]),
    );
    const others = packed.filter((path) => !path.startsWith('dist/'));
    expect(others.sort()).toEqual(['README.md', 'package.json']);
  });

  it('has nothing that publint complains about', async () => {
    const { messages } = await publint({ pkgDir: root, strict: true });
    expect(messages).toEqual([]);
  }, 60_000);

  it('is loaded and drawn without a browser', () => {
    const script = `
      import { createElement } from 'react';
      import { renderToString } from 'react-dom/server';
      import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
      import * as all from '@sederunt/react';
      const page = createElement(QueryClientProvider, { client: new QueryClient() },
        createElement(all.SederuntProvider, {},
          createElement(all.SessionTranscript, { sessionId: 's' }),
          createElement(all.WorkingOnPicker), createElement(all.ActivityRecorderMount)));
      console.log(Object.keys(all).join(), renderToString(page).includes('Transcript'));`;
    writeFileSync(join(folder, 'load.mjs'), script);
    const [names = '', drawn] = run(process.execPath, ['load.mjs']).trim().split(' ');
    expect(drawn).toBe('true');
    for (const name of [
      'useSessionEvents',
      'useSessionRealtime',
      'useEntitySessions',
      'useActiveHumanSession',
      'useActivityRecorder',
      'useWorkQueueCounts',
      'useSessionDocument',
      'usePresence',
      'SessionTranscript',
      'SessionStatusBadge',
      'WorkQueueCommandStrip',
      'WorkingOnPicker',
      'QuickMarkerDialog',
      'ActivityRecorderMount',
      'ApprovalDetail',
      'extractEntityRefFromPath',
      'sessionEventsQueryKey',
      'entitySessionsQueryKey',
      'SESSION_STATUSES',
      'SESSION_EVENT_TYPES',
      'isValidSessionStatus',
      'isValidEventType',
      'isHumanEventType',
      'sessionStatusToBlockStatus',
      'buildTaskStatusMap',
      'EMPTY_TASK_STATUS_MAP',
    ]) {
      expect(names.split(',')).toContain(name);
    }
  });

  it.each([
    ['NodeNext', 'NodeNext'],
    ['ESNext', 'Bundler'],
  ])(
    'has types for %s modules, resolved as by %s',
    (module, moduleResolution) => {
      const source = `
      import { createSederuntClient, SessionTranscript, useSessionEvents, type SessionEvent } from '@sederunt/react';
      export const client = createSederuntClient({ baseUrl: 'https://sederunt.example.org' });
      export const page = client.get('/api/sessions/{id}/events', { path: { id: 's' }, query: { order: 'desc' } });
      export const sequences: Promise<number[]> = page.then(({ events }) => events.map((one: SessionEvent) => one.sequence));
      // @ts-expect-error: there is no such path
      void client.get('/api/nothing', {});
      // @ts-expect-error: the path needs its id
      void client.get('/api/sessions/{id}/events', {});
      // @ts-expect-error: the body needs its task
      void client.post('/api/sessions/human/start', { body: {} });
      export const Log = () => { const { events } = useSessionEvents('s'); return <SessionTranscript sessionId={String(events.length)} />; };`;
      writeFileSync(join(folder, 'use.tsx'), source);
      const readme = readFileSync(join(folder, 'node_modules/@sederunt/react/README.md'), 'utf8');
      const [, begin = ''] = /## Begin\s+```tsx\n([\s\S]*?)```/.exec(readme) ?? [];
      expect(begin).toContain('<SederuntProvider');
      const around = 'declare function currentToken(): string;\ndeclare function signInAgain(): void;\n';
      writeFileSync(join(folder, 'readme.tsx'), `${begin}\n${around}`);
      const compilerOptions = {
        module,
        moduleResolution,
        target: 'ES2022',
        lib: ['ES2022', 'DOM', 'DOM.Iterable'],
        jsx: 'react-jsx',
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        types: [],
      };
      writeFileSync(
        join(folder, 'tsconfig.json'),
        JSON.stringify({ compilerOptions, files: ['use.tsx', 'readme.tsx'] }),
      );
      expect(() => run(process.execPath, [join(modules, 'typescript/bin/tsc'), '-p', folder])).not.toThrow();
    },
    60_000,
  );

  it('costs an app that shows a badge only the badge', async () => {
    const app = join(folder, 'app');
    mkdirSync(app, { recursive: true });
    writeFileSync(join(app, 'main.js'), `export { SessionStatusBadge } from '@sederunt/react';`);
    await build({
      root: app,
      logLevel: 'silent',
      configFile: false,
      build: {
        lib: { entry: 'main.js', formats: ['es'], fileName: 'app' },
        rollupOptions: { external: [/^react/, /^@tanstack/] },
      },
    });
    const [file = ''] = readdirSync(join(app, 'dist')).filter((name) => name.startsWith('app'));
    const bundle = readFileSync(join(app, 'dist', file), 'utf8');
    expect(bundle).toContain('sdr-badge');
    expect(bundle.length).toBeLessThan(4_000);
    expect(bundle).not.toMatch(/ResizeObserver|tanstack|event-stream/);
  }, 60_000);

  it('has a style sheet that touches nothing but its own elements, and loads nothing', () => {
    const css = readFileSync(join(folder, 'node_modules/@sederunt/react/dist/styles.css'), 'utf8');
    const selectors = [...css.replace(/\/\*[\s\S]*?\*\//g, '').matchAll(/(?:^|[{}])\s*([^{}@]+)\{/g)].map(
      ([, one = '']) => one.trim(),
    );
    const steps = /^(\d+%|from|to)$/;
    expect(selectors.filter((one) => !one.includes('[data-sdr]') && !steps.test(one))).toEqual([]);
    expect(css).not.toMatch(/url\(|@import/);
  });
});

describe('the lock file', () => {
  it('names no host of a registry', () => {
    const lock = JSON.parse(readFileSync(resolve(root, '../../package-lock.json'), 'utf8'));
    const resolved = Object.values(lock.packages as Record<string, { resolved?: string }>).flatMap(
      (one) => one.resolved ?? [],
    );
    expect(resolved.filter((one) => one.includes('://'))).toEqual([]);
    expect(Object.keys(lock.packages).length).toBeGreaterThan(50);
  });
});
