import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** Where the Sederunt server listens: `sederunt serve --demo` prints it. */
const target = process.env['SEDERUNT_URL'] ?? 'http://127.0.0.1:7070';

// A local server answers only requests that name itself.
const proxy = { '/api': { target, changeOrigin: true, headers: { origin: target } } };

export default defineConfig(({ command }) => ({
  plugins: [
    react(),
    {
      name: 'policy-of-the-built-page',
      // In development Vite writes inline scripts and styles, which the policy forbids.
      transformIndexHtml: (html: string) =>
        command === 'build' ? html : html.replace(/<meta\s+http-equiv="Content-Security-Policy"[^>]*>/, ''),
    },
  ],
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy },
  preview: { proxy },
}));
