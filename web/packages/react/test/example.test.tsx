import { fireEvent, screen } from '@testing-library/react';
import { beforeEach, expect, it, vi } from 'vitest';
import { Page } from '../example/src/Page.js';
import { installLayout } from './layout.js';
import { pass, setUp } from './render.js';
import { answer, fakeLog } from './server.js';

vi.hoisted(() => vi.useFakeTimers());
beforeEach(installLayout);

it('the example shows the queue, what I work on, and the transcript of a session that is clicked', async () => {
  const { server, show } = setUp();
  const log = fakeLog(server);
  log.append({ type: 'agent.message', content: 'Rain until five.' });
  server.on('GET /api/today/work-queue-counts', () =>
    answer({ needs_me: 4, running: 1, delegatable: 0, failed: 0, done_today: 0 }),
  );
  server.on('GET /api/sessions/human/active', () => answer({ session: null }));
  server.on('GET /api/sessions', () =>
    answer({ items: [{ id: 's', title: 'Weather', status: 'running', session_type: 'agent' }], next_cursor: null }),
  );
  show(<Page />);
  await pass(100);
  fireEvent.click(screen.getByText('need you').closest('button') ?? document.body);
  expect(screen.getByText('You picked needs me.')).toBeDefined();
  expect(screen.getByText('What are you working on?')).toBeDefined();
  fireEvent.click(screen.getByText('Weather'));
  await pass(300);
  expect(screen.getByText('Rain until five.')).toBeDefined();
  log.append({ content: 'And then?' });
  await pass(300);
  expect(screen.getByText('And then?')).toBeDefined();
});
