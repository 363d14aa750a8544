/** Renders with the providers of the app, against a server in memory. */
import { QueryClientProvider } from '@tanstack/react-query';
import { render } from '@testing-library/react';
import type { ReactNode } from 'react';
import { vi } from 'vitest';
import { ToastProvider } from '../src/components/ToastProvider.js';
import { TooltipProvider } from '../src/components/Tooltip.js';
import { KeyboardProvider } from '../src/keyboard/KeyboardProvider.js';
import { createQueries } from '../src/lib/queries.js';

export interface SeenCall {
  name: string;
  headers: Headers;
  body: unknown;
}

export function answer(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(status === 204 ? null : JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

export function refused(status: number, code: string, headers: Record<string, string> = {}): Response {
  return answer({ error: { code, message: `refused: ${code}`, request_id: 'req-1' } }, status, headers);
}

/** A `fetch` that answers by method and path; routes that a test does not name are 404, and streams stay silent but for `hint`. */
export function fakeServer() {
  const calls: SeenCall[] = [];
  const hintStreams: ReadableStreamDefaultController<Uint8Array>[] = [];
  const routes = new Map<string, (call: SeenCall) => Response>();
  const fetch = (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const { pathname } = new URL(String(input), location.origin);
    const call = {
      name: `${init.method ?? 'GET'} ${pathname}`,
      headers: new Headers(init.headers),
      body: typeof init.body === 'string' ? JSON.parse(init.body) : undefined,
    };
    calls.push(call);
    if (pathname === '/api/stream') {
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void hintStreams.push(controller) });
      return Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } }));
    }
    return Promise.resolve().then(() => routes.get(call.name)?.(call) ?? refused(404, 'not_found'));
  };
  vi.stubGlobal('fetch', fetch);
  return {
    calls,
    on: (name: string, route: (call: SeenCall) => Response) => routes.set(name, route),
    sent: (name: string) => calls.filter((call) => call.name === name),
    /** Tells the page that something has changed. */
    hint: (event: string, data: object) => {
      const bytes = new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
      for (const stream of hintStreams) stream.enqueue(bytes);
    },
    hintStreams,
  };
}

export const ANN = {
  tenant: 'default',
  user: { id: 'ann', name: 'Ann' },
  role: 'owner',
  auth: 'browser',
  can: [],
  version: '0.1.0',
  expires_at: null,
};

export function show(element: ReactNode) {
  const queries = createQueries();
  return render(
    <QueryClientProvider client={queries}>
      <TooltipProvider>
        <ToastProvider>
          <KeyboardProvider>{element}</KeyboardProvider>
        </ToastProvider>
      </TooltipProvider>
    </QueryClientProvider>,
  );
}
