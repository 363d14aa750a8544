/** Approvals and a server for the pages on which people decide. */
import type { Approval } from '@sederunt/react';
import { act } from '@testing-library/react';
import type { ReactNode } from 'react';
import { vi } from 'vitest';
import { SignInProvider } from '../src/auth/SignInProvider.js';
import { DecisionsProvider } from '../src/decisions/DecisionsProvider.js';
import { PageFrameProvider } from '../src/shell/pageFrame.js';
import { ANN, answer, fakeServer, refused, type SeenCall, show } from './app.js';

export const DECIDER = { ...ANN, can: ['decide', 'trigger'] };

export function approval(id: string, more: Partial<Record<keyof Approval, unknown>> = {}): Approval {
  return {
    id,
    kind: 'tool',
    session_id: `s-${id}`,
    task_id: null,
    state: 'pending',
    staged: { id: 'c', name: 'send_mail', args: { what: `letter ${id}` } },
    input_schema: null,
    score: null,
    flags: [],
    digest: `digest-${id}`,
    assigned_to: null,
    expires_at: null,
    on_expiry: 'expire',
    decided_by: null,
    decided_at: null,
    decision: null,
    promotion: null,
    edited: null,
    reason: null,
    created_at: '2026-01-31T09:00:00Z',
    ...more,
  } as Approval;
}

export interface Decided {
  id: string;
  body: Record<string, unknown>;
}

/** Serves these approvals until they are decided. `isSignedIn` can be switched. */
export function decidingServer(approvals: readonly Approval[]) {
  const server = fakeServer();
  const pending = new Map(approvals.map((one) => [one.id, one]));
  const state = { isSignedIn: true, refuse: undefined as ((id: string) => Response | undefined) | undefined };
  const decided: Decided[] = [];
  const guarded = (route: (call: SeenCall) => Response) => (call: SeenCall) =>
    state.isSignedIn ? route(call) : refused(401, 'unauthorized');
  server.on('GET /auth/config', () => answer({ mode: 'keys', version: '0.1.0', sign_in: ['key'] }));
  server.on(
    'GET /api/me',
    guarded(() => answer(DECIDER)),
  );
  server.on('POST /auth/session', () => {
    state.isSignedIn = true;
    return answer(undefined, 204);
  });
  server.on(
    'GET /api/approvals',
    guarded(() => answer({ items: [...pending.values()], next_cursor: null })),
  );
  server.on(
    'GET /api/sessions',
    guarded(() =>
      answer({
        items: approvals.map((one) => ({ id: one.session_id, title: `Session of ${one.id}` })),
        next_cursor: null,
      }),
    ),
  );
  for (const one of approvals) {
    server.on(
      `GET /api/approvals/${one.id}`,
      guarded(() => answer(one)),
    );
    server.on(
      `POST /api/approvals/${one.id}/decide`,
      guarded(({ body }) => {
        const refusal = state.refuse?.(one.id);
        if (refusal !== undefined) return refusal;
        decided.push({ id: one.id, body: body as Record<string, unknown> });
        pending.delete(one.id);
        return answer({ ...one, state: 'approved' });
      }),
    );
  }
  return Object.assign(server, { state, decided, pending });
}

export function showDeciding(page: ReactNode) {
  return show(
    <SignInProvider>
      <DecisionsProvider>
        <PageFrameProvider>{page}</PageFrameProvider>
      </DecisionsProvider>
    </SignInProvider>,
  );
}

/** Lets time pass, with all that waits for it. */
export async function pass(ms = 50): Promise<void> {
  await act(async () => {
    await vi.advanceTimersByTimeAsync(ms);
  });
}
