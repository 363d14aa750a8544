import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { POSTGRES } from './harness/store.js';

const here = fileURLToPath(new URL('.', import.meta.url));

/** The walks run on SQLite, and on PostgreSQL too where the tests have a server. */
const STORES = POSTGRES === undefined ? ['sqlite'] : ['sqlite', 'postgres'];

export default defineConfig({
  root: here,
  test: {
    fileParallelism: false,
    maxWorkers: 1,
    isolate: false,
    projects: STORES.map((name) => ({
      root: here,
      test: {
        name,
        environment: 'node',
        include: ['walks/**/*.walk.ts'],
        globalSetup: ['harness/globalSetup.ts'],
      },
    })),
  },
});
