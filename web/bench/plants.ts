/**
 * Slow variants that the bars must catch. Each is a script that a page runs before its own, and makes one thing slow as a fault in the
 * app would.
 */
import type { BarName } from './bars.js';

export interface Plant {
  what: string;
  /** The bars that it has to break. */
  catches: readonly BarName[];
  script: string;
  /** Asks the server for files without compression. */
  isUncompressed?: true;
}

const BUSY = 'const busy = (ms) => { const end = performance.now() + ms; while (performance.now() < end); };';

/** Calls `change` with each answer whose path fits, and hands on what it returns. */
const answers = (path: string, change: string) => `{ ${BUSY}
  const real = window.fetch;
  const change = ${change};
  window.fetch = async (...asked) => {
    const answer = await real(...asked);
    const { pathname } = new URL(asked[0].url ?? asked[0], location.href);
    return ${path}.test(pathname) ? change(answer, real) : answer;
  };
}`;

/** Hands on a body piece by piece, each after some time, and its end after some more. */
const slowBody = (pieceMs: number, endMs: number) => `async (answer) => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const reader = answer.body.getReader();
  const body = new ReadableStream({ async pull(out) {
    const piece = await reader.read().catch((error) => wait(${endMs}).then(() => { throw error; }));
    if (piece.done) { await wait(${endMs}); return out.close(); }
    await wait(${pieceMs});
    out.enqueue(piece.value);
  } });
  return new Response(body, answer);
}`;

export const PLANTS = {
  uncompressed: { what: 'files are sent as they are', catches: ['first-load-size'], script: '', isUncompressed: true },
  'slow-start': {
    what: 'the app computes for a second before it starts',
    catches: ['interactive'],
    script: `{ ${BUSY} addEventListener('DOMContentLoaded', () => busy(1100)); }`,
  },
  'slow-page': {
    what: 'the first page of events takes 200 ms',
    catches: ['open'],
    script: answers('/\\/events$/', '(answer) => new Promise((done) => setTimeout(done, 200, answer))'),
  },
  'slow-rows': {
    what: 'each event of the log costs 10 µs when it is drawn',
    catches: ['in-memory'],
    script: answers(
      '/\\/events$/',
      '(answer) => new Proxy(answer, { get: (of, name) => name === "json" ? async () => { const read = await of.json(); busy(read.events.length / 100); return read; } : typeof of[name] === "function" ? of[name].bind(of) : of[name] })',
    ),
  },
  'long-tasks': {
    what: 'a task of 120 ms every second',
    catches: ['tasks-over-50', 'longest-task'],
    script: `{ ${BUSY} setInterval(() => busy(120), 1000); }`,
  },
  'all-rows': {
    what: 'the list takes all rows for visible',
    catches: ['rows'],
    script: `setInterval(() => { const list = document.querySelector('.sdr-scroller'); if (list) { list.style.height = '12000px'; list.parentElement.style.height = '12000px'; } }, 200);`,
  },
  leak: {
    what: 'every event is kept a thousand times',
    catches: ['heap'],
    script: answers(
      '/./',
      '(answer) => { (window.kept ??= []).push(Array.from({ length: 2e6 }, (_, n) => ({ n }))); return answer; }',
    ),
  },
  'slow-stream': {
    what: 'each piece of a stream is held for 80 ms',
    catches: ['event', 'delta'],
    script: answers('/\\/stream$/', slowBody(80, 0)),
  },
  drift: {
    what: 'the transcript jumps by three pixels when rows change',
    catches: ['earlier-drift', 'append-drift'],
    script: `addEventListener('DOMContentLoaded', () => { let seen = 0; setInterval(() => {
      const list = document.querySelector('.sdr-scroller');
      if (list && list.scrollHeight !== seen) { seen = list.scrollHeight; list.scrollTop -= 3; }
    }, 0); });`,
  },
  'late-loss': {
    what: 'the end of a stream is noticed after 1.5 s',
    catches: ['lost'],
    script: answers('/\\/stream$/', slowBody(0, 1500)),
  },
  'late-return': {
    what: 'each try to reach a lost server takes four seconds',
    catches: ['live-again'],
    script: `{ const real = window.fetch; let tried = 0; window.fetch = async (...asked) => {
      const { pathname } = new URL(asked[0].url ?? asked[0], location.href);
      if (/\\/sessions\\/.*\\/stream$/.test(pathname) && tried++ > 0) await new Promise((done) => setTimeout(done, 4000));
      return real(...asked);
    }; }`,
  },
} as const satisfies Record<string, Plant>;

export type PlantName = keyof typeof PLANTS;
