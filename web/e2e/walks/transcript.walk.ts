import { expect } from 'vitest';
import { listOf, numberOf } from '../harness/apiClient.js';
import { driftOf, heightOf, openSession, rowOf, rowUnderEye, scrollTo, shownSequences } from '../harness/transcript.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { externalSession, runningRun, say } from '../harness/world.js';

/** Two events come at a time: about two hundred a second. */
const ARRIVAL_PAUSE_MS = 10;
const PIXELS_MAX = 1;

walk(
  'the row under the eye stays where it is while earlier events are loaded ten times and new ones arrive',
  async (stage) => {
    const { api, url } = stage.shared;
    const session = await externalSession(api, 'A long one');
    for (let batch = 0; batch < 3; batch++) {
      await say(
        api,
        session,
        Array.from({ length: 450 }, (_, at) => `line ${batch * 450 + at} ${'word '.repeat(at % 40)}`),
      );
    }
    const page = await (await stage.visitor(url)).open('/sessions');
    await openSession(page, session);
    await rowOf(page, 1350).waitFor();

    let isOpen = true;
    const arriving = (async () => {
      while (isOpen) {
        await say(api, session, ['one more', 'and another one']);
        await new Promise((done) => setTimeout(done, ARRIVAL_PAUSE_MS));
      }
    })();
    const drifts: number[] = [];
    try {
      for (let time = 0; time < 10; time++) {
        await scrollTo(page, 300);
        const [eye, height] = [await rowUnderEye(page), await heightOf(page)];
        const drift = driftOf(page, eye, height);
        await page.getByRole('button', { name: /Load earlier/ }).click();
        drifts.push(await drift);
        await page.getByRole('button', { name: 'Looking further back…' }).waitFor({ state: 'detached' });
      }
    } finally {
      isOpen = false;
      await arriving;
    }
    expect(
      drifts.filter((drift) => drift > PIXELS_MAX),
      `drifts ${drifts.join()}`,
    ).toEqual([]);
    const last = numberOf(await api.get(`/api/sessions/${session}/state`), 'last_sequence');
    await page.keyboard.press('End');
    await rowOf(page, last).waitFor();
  },
);

walk(
  'a server that is killed while events are written, and started again, loses and doubles nothing on the screen',
  async (stage) => {
    const { api, url, server } = await stage.ownPlace({ args: ['--workers', '0'] });
    const session = await externalSession(api, 'Written while the server dies');
    await say(api, session, ['first']);
    const page = await (await stage.visitor(url)).open('/sessions');
    await openSession(page, session);

    let acknowledged = 0;
    let isOpen = true;
    const writing = (async () => {
      for (let number = 0; isOpen; ) {
        const event = { type: 'agent.message', content: `line ${number}`, external_event_id: `line-${number}` };
        const isWritten = await api.post(`/api/sessions/${session}/events`, { events: [event] }).then(
          () => true,
          () => false,
        );
        if (isWritten) acknowledged = ++number;
      }
    })();
    await until('ten lines are written', () => acknowledged >= 10);
    await server.kill();
    await page.locator('.sdr-transcript[data-phase="reconnecting"]').waitFor({ timeout: 1_000 });
    await server.start();
    const before = acknowledged;
    await page.locator('.sdr-transcript[data-phase="live"]').waitFor();
    await until('ten more lines are written', () => acknowledged >= before + 10);
    isOpen = false;
    await writing;
    const last = numberOf(await api.get(`/api/sessions/${session}/state`), 'last_sequence');
    await rowOf(page, last).waitFor();
    const shown = await shownSequences(page);
    expect(shown.at(-1)).toBe(last);
    const log = await api.get(`/api/sessions/${session}/events?types=agent.message&limit=1000`);
    const written = listOf({ events: log['events'] ?? null }, 'events');
    expect(shown).toEqual(written.map((event) => event['sequence']));
  },
);

walk('text that is being written is on the screen, and is there again after a reload', async (stage) => {
  const { api, url } = stage.shared;
  const { session, epoch } = await runningRun(api);
  const page = await (await stage.visitor(url)).open('/sessions');
  await openSession(page, session);
  await api.post(`/api/sessions/${session}/delta`, { epoch, text: 'The tide comes ' });
  await page.getByText('The tide comes').waitFor();
  await page.reload();
  await page.getByText('The tide comes').waitFor();
  await api.post(`/api/sessions/${session}/delta`, { epoch, text: 'in at five.' });
  await page.getByText('The tide comes in at five.').waitFor();
  await api.post(`/api/sessions/${session}/complete`, { epoch, text: 'The tide comes in at five.' });
  await page.getByText('Completed').first().waitFor();
  await until(
    'the words are shown once',
    async () => (await page.locator('.sdr-scroller').getByText('The tide comes in at five.').count()) === 1,
  );
});
