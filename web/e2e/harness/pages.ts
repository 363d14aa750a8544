/** The pages of a server with the demo's content, and when one of them is ready. */
import type { Page } from 'playwright-core';
import { type Api, listOf, textOf } from './apiClient.js';
import type { Visitor } from './visitor.js';
import { until } from './waiting.js';

/** Longer than the time after which a page shows that it loads. */
const QUIET_MS = 250;

/** Waits until what the page has asked the server for is on the screen. */
export async function settled(visitor: Visitor, page: Page): Promise<void> {
  await page.locator('main').waitFor();
  let quietSince = Date.now();
  await until('the page has shown what it asked for', async () => {
    const isBusy = (await page.locator('main [aria-busy="true"]').count()) > 0;
    if (visitor.isWaiting(page) || isBusy) quietSince = Date.now();
    return Date.now() - quietSince >= QUIET_MS;
  });
}

export async function demoPaths(api: Api) {
  const first = async (path: string) => encodeURIComponent(textOf(listOf(await api.get(path), 'items')[0] ?? {}, 'id'));
  const sessions = listOf(await api.get('/api/sessions?parents_only=true&limit=100'), 'items');
  const counts = await Promise.all(
    sessions.map(async (session) => {
      const id = encodeURIComponent(textOf(session, 'id'));
      return { id, steps: listOf(await api.get(`/api/sessions/${id}/children`), 'items').length };
    }),
  );
  const parent = counts.toSorted((a, b) => b.steps - a.steps)[0]?.id ?? '';
  const threads = listOf(await api.get('/api/threads?limit=1'), 'items');
  const thread = threads[0] === undefined ? '' : `/${encodeURIComponent(textOf(threads[0], 'thread_id'))}`;
  const failed = await first('/api/sessions?status=failed&limit=1');
  const waiting = listOf(await api.get('/api/sessions?status=waiting_human&limit=100'), 'items');
  const longest = waiting.toSorted((a, b) => Number(b['last_sequence']) - Number(a['last_sequence']))[0];
  const talked = longest === undefined ? failed : encodeURIComponent(textOf(longest, 'id'));
  return {
    today: '/',
    inbox: '/inbox',
    approval: `/inbox/${await first('/api/approvals?state=pending&limit=1')}`,
    sessions: '/sessions',
    session: `/sessions/${talked}`,
    failed: `/sessions/${failed}`,
    timeline: `/sessions/${failed}?tab=timeline`,
    steps: `/sessions/${parent}?tab=steps`,
    result: `/sessions/${failed}?tab=result`,
    raw: `/sessions/${failed}?tab=raw`,
    newChat: '/chat',
    chat: `/chat${thread}`,
    nowhere: '/nowhere/at/all',
  };
}
