/** Where the parts of the repository lie that the walks use. */
import { fileURLToPath } from 'node:url';

const fromRepository = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** The server that the walks start. */
export const BINARY = process.env['SEDERUNT_BIN'] ?? fromRepository('target/debug/sederunt');
export const CHROMIUM = process.env['SEDERUNT_CHROMIUM'] ?? '/usr/bin/chromium';
export const APP = fromRepository('web/app');
/** Screenshots of walks that failed. */
export const FAILURES = fromRepository('target/walks');
export const SCREENSHOTS = fromRepository('docs/screenshots');
export const FIXTURES = fromRepository('web/e2e/fixtures');
export const AXE = fromRepository('web/node_modules/axe-core/axe.min.js');
