// The hash of everything that the built app is made from. It is written beside the built files, and a test of the server
// computes it again: where the two differ, the built files are older than their sources.
//
// The algorithm, exactly:
// 1. Files: all regular files under `web/app` and `web/packages`, and the two files `web/package-lock.json` and
//    `api/openapi.json`. Paths are relative to the root of the repository and separated by `/`.
// 2. Left out, under the two folders: directories named `node_modules`, `dist` or `test` with all that is in them; files and
//    directories whose name begins with a dot; files whose name ends with `.md`; symbolic links.
// 3. Order: the paths as UTF-8, compared byte by byte.
// 4. SHA-256 over, for each file in this order: its path, one NUL byte, the length of its content in bytes as decimal digits,
//    one NUL byte, its content.
// 5. Written as 64 lowercase hexadecimal digits and a line feed.
//
// `node scripts/source-hash.mjs` prints it.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDERS = ['web/app', 'web/packages'];
const FILES = ['web/package-lock.json', 'api/openapi.json'];
const SKIPPED_FOLDERS = ['node_modules', 'dist', 'test'];

export const repositoryRoot = fileURLToPath(new URL('../../..', import.meta.url));

/** The paths of the sources below `folder`, in no order. */
function filesBelow(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.name.startsWith('.')) return [];
    if (entry.isDirectory()) return SKIPPED_FOLDERS.includes(entry.name) ? [] : filesBelow(root, path);
    return entry.isFile() && !entry.name.endsWith('.md') ? [path] : [];
  });
}

/** The paths of all sources, in the order of the hash. */
export function sourcePaths(root = repositoryRoot) {
  const paths = [...FOLDERS.flatMap((folder) => filesBelow(root, folder)), ...FILES];
  return paths.sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
}

/** 64 hexadecimal digits. */
export function sourceHash(root = repositoryRoot) {
  const hash = createHash('sha256');
  for (const path of sourcePaths(root)) {
    const content = readFileSync(join(root, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(sourceHash());
