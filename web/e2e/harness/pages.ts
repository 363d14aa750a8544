/** The pages of a server with the demo's content, and when one of them is ready. */
import type { Page } from 'playwright-core';
import { type Api, listOf, textOf } from './apiClient.js';
import { until } from './waiting.js';

/** Waits until what the page has asked the server for is on the screen. */
export async function settled(page: Page): Promise<void> {
  await page.locator('main').waitFor();
  await until('the page shows more than skeletons', async () => {
    const [busy, text] = await Promise.all([
      page.locator('main [aria-busy="true"]').count(),
      page.locator('main').innerText(),
    ]);
    const panel = page.getByRole('tabpanel');
    const isPanelEmpty = (await panel.count()) > 0 && (await panel.first().innerText()).trim() === '';
    return busy === 0 && text.trim() !== '' && !isPanelEmpty;
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
  const talked = await first('/api/sessions?status=waiting_human&limit=1').catch(() => failed);
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
