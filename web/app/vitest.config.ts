import { mergeConfig } from 'vite';
import { defineConfig } from 'vitest/config';
import app from './vite.config.js';

export default mergeConfig(
  app,
  defineConfig({
    test: {
      environment: 'jsdom',
      environmentOptions: { jsdom: { url: 'http://127.0.0.1:7070/' } },
      include: ['test/**/*.test.{ts,tsx}'],
      setupFiles: ['test/setup.ts'],
      css: false,
      // A machine that builds beside the tests draws a page in seconds.
      testTimeout: 30_000,
      restoreMocks: true,
      unstubGlobals: true,
    },
  }),
);
