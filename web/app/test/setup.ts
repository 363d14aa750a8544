/** What jsdom lacks. */
import { cleanup } from '@testing-library/react';
import { afterEach } from 'vitest';

class NoResizes {
  observe() {}
  unobserve() {}
  disconnect() {}
}

// Tests of the build run in Node, without a window.
if (typeof window !== 'undefined') {
  window.matchMedia ??= (query: string) =>
    Object.assign(new EventTarget(), {
      matches: query.includes('min-width'),
      media: query,
      onchange: null,
      addListener: () => undefined,
      removeListener: () => undefined,
    }) as MediaQueryList;
  globalThis.ResizeObserver ??= NoResizes;
  Element.prototype.scrollIntoView ??= () => undefined;
  Element.prototype.hasPointerCapture ??= () => false;
  HTMLElement.prototype.scrollTo ??= () => undefined;
}

afterEach(() => {
  if (typeof window === 'undefined') return;
  cleanup();
  localStorage.clear();
  sessionStorage.clear();
});
