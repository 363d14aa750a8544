import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { type Api, listOf, objectOf, textOf } from '../harness/apiClient.js';
import { until } from '../harness/waiting.js';
import { walk } from '../harness/walk.js';
import { fresh } from '../harness/world.js';

async function markersOf(api: Api): Promise<string[]> {
  const session = textOf(objectOf(await api.get('/api/sessions/human/active'), 'session'), 'id');
  const { events } = await api.get(`/api/sessions/${session}/events?types=human.marker`);
  return listOf({ events: events ?? null }, 'events').map((event) => JSON.stringify(event['content']));
}

const markerField = (page: Page) => page.getByRole('textbox', { name: 'Marker' });

/** Presses the keys and sees that no field for a marker opens; the press after them shows that the page has heard them. */
async function doesNotMark(page: Page, keys: string): Promise<void> {
  await page.keyboard.press(keys);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  expect(await markerField(page).isVisible(), `the field after ${keys}`).toBe(false);
}

walk(
  'a person picks a task to work on and marks a moment by Ctrl M, which does nothing before, while typing, or with Shift or Alt',
  async (stage) => {
    const { api, url } = stage.shared;
    const name = `Draft the outreach ${fresh('acme')}`;
    const page = await (await stage.visitor(url)).open('/inbox');
    const picker = page.getByRole('button', { name: /What are you working on/ });
    await picker.waitFor();
    await doesNotMark(page, 'Control+m');

    await picker.click();
    await page.getByRole('button', { name: /Create a task/ }).click();
    await page.getByLabel('Name of the new task').fill(name);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: new RegExp(`Working on: ${name}`) }).waitFor();

    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').first().focus();
    await doesNotMark(page, 'Control+Shift+m');
    await doesNotMark(page, 'Control+Alt+m');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search, go and do' }).waitFor();
    await doesNotMark(page, 'Control+m');
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Search, go and do' }).waitFor({ state: 'detached' });

    await page.keyboard.press('Control+m');
    await markerField(page).fill('wrote to Acme');
    await page.keyboard.press('Enter');
    await page.getByText('Marked', { exact: true }).waitFor({ state: 'attached' });
    await markerField(page).waitFor({ state: 'hidden' });
    const [marker, ...others] = await until('the marker is in the log', async () => {
      const markers = await markersOf(api);
      return markers.length > 0 && markers;
    });
    expect(marker).toContain('wrote to Acme');
    expect(others).toEqual([]);

    await page.getByRole('button', { name: 'Stop working' }).click();
    await picker.waitFor();
    await doesNotMark(page, 'Control+m');
  },
);
