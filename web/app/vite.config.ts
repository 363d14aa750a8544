/** How the app is built, and how it reaches a server while it is developed. */
import { fileURLToPath } from 'node:url';
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type ProxyOptions } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Where the Sederunt server listens: `sederunt serve --demo` prints it. */
const target = process.env['SEDERUNT_URL'] ?? 'http://127.0.0.1:7070';

/** A local server answers only requests whose Host and Origin name it, and that no proxy has marked. */
const toServer: ProxyOptions = { target, changeOrigin: true, xfwd: false, headers: { origin: target }, ws: true };

/** The paths that are the server's own; all others are pages of the app. */
const proxy = {
  '^/(api|auth|threads|store|v1|ai|ag-ui|views|mcp|metrics|healthz|readyz|openapi\\.json)([/?]|$)': toServer,
};

/** The policy that the server sends with the built app. The preview sends it too; the development server needs inline scripts. */
const policy = [
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

/** A page's chunk is named after its folder, since every page's file is called `index`. */
function chunkName(chunk: { name: string; facadeModuleId: string | null }): string {
  const page = /\/src\/pages\/([\w-]+)\/index\.tsx$/.exec(chunk.facadeModuleId ?? '')?.[1];
  return `assets/${page === undefined ? chunk.name : `page-${page}`}.js`;
}

export default defineConfig({
  root: here('.'),
  plugins: [react(), tailwind()],
  resolve: {
    alias: [
      { find: /^@sederunt\/react$/, replacement: here('../packages/react/src/index.ts') },
      { find: '@sederunt/react/styles.css', replacement: here('../packages/react/src/styles.css') },
      // The original writes a <style> element, which the policy forbids.
      { find: 'react-style-singleton', replacement: here('src/lib/styleSingleton.ts') },
    ],
    dedupe: ['react', 'react-dom', '@tanstack/react-query'],
  },
  build: {
    // Names without hashes: the built files are committed, and the server sends each with the hash of its content.
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      input: { app: here('index.html') },
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: chunkName,
        assetFileNames: (asset) =>
          asset.names.some((name) => name.endsWith('.css')) ? 'assets/app.css' : 'assets/[name][extname]',
      },
    },
  },
  server: { host: '127.0.0.1', port: 5173, proxy },
  preview: { host: '127.0.0.1', port: 4173, proxy, headers: { 'Content-Security-Policy': policy } },
});
