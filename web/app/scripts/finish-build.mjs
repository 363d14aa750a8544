// Finishes dist/: compressed copies beside each text file, and the hash of the sources. The same input gives the same bytes.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { sourceHash } from './source-hash.mjs';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
const TEXT = /\.(css|html|js|json|svg|txt)$/;
/** Where a gzip header names the operating system; 255 means that it is not known. */
const GZIP_SYSTEM_AT = 9;

function brotli(content) {
  const params = {
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
  };
  return brotliCompressSync(content, { params });
}

function gzip(content) {
  const packed = gzipSync(content, { level: constants.Z_BEST_COMPRESSION });
  packed[GZIP_SYSTEM_AT] = 255;
  return packed;
}

const names = readdirSync(dist, { recursive: true }).filter((name) => TEXT.test(name));
for (const name of names.sort()) {
  const content = readFileSync(join(dist, name));
  writeFileSync(join(dist, `${name}.br`), brotli(content));
  writeFileSync(join(dist, `${name}.gz`), gzip(content));
}
writeFileSync(join(dist, '.source-hash'), `${sourceHash()}\n`);
