/** Renders with a provider around it, and helpers for fake time. */
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, render, renderHook } from '@testing-library/react';
import type { ReactNode } from 'react';
import { vi } from 'vitest';
import { SederuntProvider, type SederuntProviderProps } from '../src/provider.js';
import { fakeFetch } from './server.js';

export function setUp(props: Omit<SederuntProviderProps, 'children'> = {}) {
  const server = fakeFetch();
  const queries = new QueryClient({ defaultOptions: { queries: { retryDelay: 10 } } });
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={queries}>
      <SederuntProvider fetch={server.fetch} {...props}>
        {children}
      </SederuntProvider>
    </QueryClientProvider>
  );
  return {
    server,
    queries,
    wrapper,
    hook: <T,>(use: () => T) => renderHook(use, { wrapper }),
    hookWith: <T, P>(use: (props: P) => T, initialProps: P) => renderHook(use, { wrapper, initialProps }),
    show: (element: ReactNode) => render(element, { wrapper }),
  };
}

/** Lets time pass, with everything that waits for it: timers, frames, answers and renders. */
export async function pass(ms = 20): Promise<void> {
  await act(async () => {
    await vi.advanceTimersByTimeAsync(ms);
  });
}

export function setVisibility(state: 'visible' | 'hidden'): void {
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue(state);
  document.dispatchEvent(new Event('visibilitychange'));
}
