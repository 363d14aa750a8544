import { expect } from 'vitest';
import { listOf } from '../harness/apiClient.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';

const ANSWER = 'Order the desks this week, then the chairs.';

walk('a person talks, ends the sitting, rates it and says why, by keyboard alone', async (stage) => {
  const { api, url } = stage.shared;
  const page = await (await stage.visitor(url)).open('/');
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.keyboard.press('c');
  await page.waitForURL('**/chat');
  const message = page.getByRole('textbox', { name: 'Message' });
  await message.waitFor();
  await until('the field for a message has the focus', () =>
    message.evaluate((field) => field === document.activeElement),
  );
  await page.keyboard.type('When must the desks be ordered?');
  await page.keyboard.press('Control+Enter');
  await page.getByText(ANSWER).first().waitFor();
  await page.waitForURL(/\/chat\/web-[0-9a-z]{8}$/);
  const thread = new URL(page.url()).pathname.replace('/chat/', '');

  await page.keyboard.type('And the movers?');
  await page.keyboard.press('Control+Enter');
  await page.getByText('The movers need two days of notice.').first().waitFor();
  await page.reload();
  // The list of chats shows the newest message too, and earlier: only the log has the first answer.
  await page.getByText(ANSWER, { exact: true }).first().waitFor();
  expect(await page.getByText(ANSWER, { exact: true }).count()).toBe(1);

  await page.getByRole('button', { name: 'End', exact: true }).focus();
  await page.keyboard.press('Enter');
  const card = page.getByRole('region', { name: 'End of the sitting' });
  await card.getByRole('heading', { name: /2 turns/ }).waitFor();
  await card.getByText('How was it?').waitFor();
  await page.keyboard.press('y');
  const comment = card.getByRole('textbox', { name: 'Anything to add?' });
  await comment.focus();
  await page.keyboard.type('The order of the steps was clear.');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  const ratings = await until('the rating is stored', async () => {
    const items = listOf(await api.get(`/api/threads/${thread}/ratings`), 'items');
    return items.length > 0 && items;
  });
  expect(ratings.map((rating) => [rating['label'], rating['turn_count_at_end']])).toEqual([['positive', 2]]);
  await card.getByRole('status').filter({ hasText: /./ }).first().waitFor();
});

walk('two tabs that end the same sitting both show its card, and it is rated once', async (stage) => {
  const { api, url } = stage.shared;
  const visitor = await stage.visitor(url);
  const first = await visitor.open('/chat');
  await first.getByRole('textbox', { name: 'Message' }).fill('When must the desks be ordered?');
  await first.keyboard.press('Control+Enter');
  await first.waitForURL(/\/chat\/web-[0-9a-z]{8}$/);
  const thread = new URL(first.url()).pathname;
  await first.getByText(ANSWER, { exact: true }).first().waitFor();
  const second = await visitor.open(thread);
  const ends = [first, second].map((page) => page.getByRole('button', { name: 'End', exact: true }));
  await Promise.all(ends.map((end) => end.waitFor()));
  // Pressed as they were on the screen: whichever is first takes the other's button away.
  const buttons = await Promise.all(ends.map((end) => end.elementHandle()));
  await Promise.all(buttons.map((button) => button?.evaluate((element) => (element as HTMLElement).click())));
  const cards = [first, second].map((page) => page.getByRole('region', { name: 'End of the sitting' }));
  await Promise.all(cards.map((card) => card.getByRole('heading', { name: /1 turn/ }).waitFor()));
  await Promise.all(cards.map((card) => card.getByRole('button', { name: 'Good', exact: true }).waitFor()));
  await cards[0]?.getByRole('button', { name: 'Good', exact: true }).click();
  await cards[0]?.getByText('You said: it was good.').waitFor();
  await cards[1]?.getByRole('button', { name: 'Not good', exact: true }).click();
  await cards[1]?.getByText(/was rated already/).waitFor();
  const ratings = await api.get(`/api${thread.replace('/chat/', '/threads/')}/ratings`);
  expect(JSON.stringify(ratings['items'])).toContain('positive');
  expect(JSON.stringify(ratings['items'])).not.toContain('negative');
});
