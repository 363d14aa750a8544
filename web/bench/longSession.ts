/** A session of 50,000 events. */
import type { Api } from '../e2e/harness/apiClient.js';
import { externalSession, say } from '../e2e/harness/world.js';

export const EVENTS = 50_000;
const BATCH = 500;

export interface LongSession {
  id: string;
  title: string;
  last: number;
}

/** Texts as agents write them: of different lengths, some of them with markdown. */
export function textOfLine(number: number): string {
  const words = 'word '.repeat(number % 60);
  return number % 4 === 0
    ? `Some **words** of line ${number}\n\n- ${words}\n- \`code ${number}\``
    : `line ${number} ${words}`;
}

export async function makeLongSession(api: Api): Promise<LongSession> {
  const title = 'A session of 50,000 events';
  const id = await externalSession(api, title);
  let last = 0;
  for (let first = 0; first < EVENTS; first += BATCH) {
    last = await say(
      api,
      id,
      Array.from({ length: BATCH }, (_, at) => textOfLine(first + at)),
    );
  }
  return { id, title, last };
}
