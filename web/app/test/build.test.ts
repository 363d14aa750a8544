// @vitest-environment node
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { repositoryRoot, sourceHash, sourcePaths } from '../scripts/source-hash.mjs';

const made: string[] = [];

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sederunt-app-'));
  made.push(folder);
  return folder;
}

function put(root: string, path: string, content: string | Buffer): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}

function smallRepository(): string {
  const root = freshFolder();
  put(root, 'web/app/src/a.ts', 'one');
  put(root, 'web/packages/react/src/b.ts', 'two');
  put(root, 'web/package-lock.json', '{}');
  put(root, 'api/openapi.json', '{}');
  return root;
}

/** A copy of the sources to build in, so that the folder of a person who works on the app is left alone. */
function copiedRepository(): string {
  const root = freshFolder();
  for (const path of sourcePaths()) cpSync(join(repositoryRoot, path), join(root, path), { recursive: true });
  for (const path of ['web/tsconfig.base.json', 'web/package.json'])
    cpSync(join(repositoryRoot, path), join(root, path));
  symlinkSync(join(repositoryRoot, 'web/node_modules'), join(root, 'web/node_modules'));
  return root;
}

function built(root: string): Map<string, Buffer> {
  const app = join(root, 'web/app');
  rmSync(join(app, 'dist'), { recursive: true, force: true });
  execFileSync('npm', ['run', 'build'], { cwd: app, stdio: 'pipe' });
  return contentOf(join(app, 'dist'));
}

function contentOf(folder: string): Map<string, Buffer> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
  return new Map(paths.map((path) => [path, readFileSync(join(folder, path))]));
}

afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

describe('the hash of the sources', () => {
  it('is the one that its description gives for a known set of files', () => {
    // Computed apart from this code, by printf and sha256sum.
    expect(sourceHash(smallRepository())).toBe('1dc96456665811389f675eb06a0eafb384214e535a390408858a666f690972ee');
  });

  it.each([
    ['a changed byte', (root: string) => put(root, 'web/app/src/a.ts', 'onE')],
    ['a new file', (root: string) => put(root, 'web/app/public/x.svg', '')],
    [
      'a renamed file',
      (root: string) => {
        rmSync(join(root, 'web/app/src/a.ts'));
        put(root, 'web/app/src/c.ts', 'one');
      },
    ],
    ['another lock file', (root: string) => put(root, 'web/package-lock.json', '{ }')],
    ['another description of the API', (root: string) => put(root, 'api/openapi.json', '{ }')],
    [
      'bytes that moved from one file to the next',
      (root: string) => {
        put(root, 'web/app/src/a.ts', 'on');
        put(root, 'web/packages/react/src/b.ts', 'etwo');
      },
    ],
  ])('differs after %s', (_what, change) => {
    const root = smallRepository();
    const before = sourceHash(root);
    change(root);
    expect(sourceHash(root)).not.toBe(before);
  });

  it('leaves out what the app is not made from', () => {
    const root = smallRepository();
    const before = sourceHash(root);
    for (const path of [
      'node_modules/x/a.js',
      'dist/assets/app.js',
      'test/a.test.ts',
      'README.md',
      '.cache/x',
      'src/.DS_Store',
    ]) {
      put(root, `web/app/${path}`, 'x');
    }
    put(root, 'web/biome.json', 'x');
    expect(sourceHash(root)).toBe(before);
  });

  it('orders paths by their bytes', () => {
    const root = smallRepository();
    for (const name of ['Z.ts', 'a-b.ts', 'a/b.ts', 'é.ts', '𝒳.ts', 'ﬁ.ts']) put(root, `web/app/src/${name}`, name);
    const names = sourcePaths(root)
      .filter((path) => path.startsWith('web/app/src/'))
      .map((path) => path.slice(12));
    expect(names).toEqual(['Z.ts', 'a-b.ts', 'a.ts', 'a/b.ts', 'é.ts', 'ﬁ.ts', '𝒳.ts']);
  });
});

describe('the build', () => {
  it('gives the same bytes twice, with stable names and compressed copies', { timeout: 120_000 }, () => {
    const root = copiedRepository();
    const one = built(root);
    const other = built(root);
    expect([...other.keys()]).toEqual([...one.keys()]);
    for (const [path, content] of one) expect(other.get(path)?.equals(content), path).toBe(true);

    for (const path of ['index.html', 'assets/app.js', 'assets/app.css', 'assets/theme.js', 'assets/page-today.js']) {
      const content = one.get(path);
      expect(content, path).toBeDefined();
      expect(brotliDecompressSync(one.get(`${path}.br`) ?? '').equals(content ?? Buffer.of()), path).toBe(true);
      expect(gunzipSync(one.get(`${path}.gz`) ?? '').equals(content ?? Buffer.of()), path).toBe(true);
    }
    expect(one.get('.source-hash')?.toString()).toBe(`${sourceHash()}\n`);

    const html = one.get('index.html')?.toString() ?? '';
    expect(html.indexOf('/assets/theme.js')).toBeLessThan(html.indexOf('/assets/app.css'));
    expect(html).not.toMatch(/<style|<script>|https?:/);
    // The scripts that the page names itself are what every page loads; the page of Today comes to it.
    const first = [...html.matchAll(/"\/(assets\/[\w.-]+\.js)"/g)].map((match) => match[1] ?? '');
    const bytes = [...first, 'assets/page-today.js'].map((path) => one.get(`${path}.gz`)?.length ?? Number.NaN);
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(250 * 1024);
  });
});
