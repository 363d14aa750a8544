/** Takes the screenshots of the main pages into docs/screenshots. Look at them before they are committed. */
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const file = fileURLToPath(new URL('harness/takeScreenshots.ts', import.meta.url));
const { module } = await runnerImport(file, { configFile: false, logLevel: 'error' });
await module.takeScreenshots();
process.exit(0);
