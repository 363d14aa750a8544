/** What jsdom lacks. */
import { cleanup, configure } from '@testing-library/react';
import { afterEach } from 'vitest';

// Other work on the machine makes pages slow; parts of pages are chunks, which have to be read first.
configure({ asyncUtilTimeout: 10_000 });

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
