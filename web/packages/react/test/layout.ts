/** As much of a browser's layout as the transcript needs: rows have heights, the scroller a viewport, and scrolling is told. */
import { vi } from 'vitest';

export const VIEWPORT_PX = 384;

/** Rows differ in height, as messages do. */
function rowHeight(sequence: number): number {
  return 28 + (sequence % 5) * 20;
}

function heightOf(element: Element): number {
  if (element.matches('.sdr-scroller')) return VIEWPORT_PX;
  const row = element.querySelector<HTMLElement>('[data-seq]');
  return row === null ? 28 : rowHeight(Number(row.dataset['seq']));
}

class FakeResizeObserver {
  readonly #onResize: ResizeObserverCallback;
  #isOver = false;
  constructor(onResize: ResizeObserverCallback) {
    this.#onResize = onResize;
  }
  observe(target: Element): void {
    // Browsers tell the first size after layout and before the frame is painted.
    queueMicrotask(() => {
      if (this.#isOver || !target.isConnected) return;
      const contentRect = { width: 600, height: heightOf(target) };
      this.#onResize([{ target, contentRect } as unknown as ResizeObserverEntry], this as unknown as ResizeObserver);
    });
  }
  unobserve(): void {
    // Sizes are told once, when a row comes into the page.
  }
  disconnect(): void {
    this.#isOver = true;
  }
}

function contentHeight(scroller: Element): number {
  return Number.parseFloat((scroller.firstElementChild as HTMLElement | null)?.style.height || '0');
}

export function installLayout(): void {
  vi.stubGlobal('ResizeObserver', FakeResizeObserver);
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
  const tops = new WeakMap<Element, number>();
  vi.spyOn(Element.prototype, 'scrollTop', 'get').mockImplementation(function top(this: Element) {
    const most = Math.max(0, contentHeight(this) - VIEWPORT_PX);
    return Math.min(tops.get(this) ?? 0, most);
  });
  const scroll = (scroller: Element, to: number) => {
    const before = scroller.scrollTop;
    tops.set(scroller, Math.max(0, Math.min(to, contentHeight(scroller) - VIEWPORT_PX)));
    if (scroller.scrollTop !== before) queueMicrotask(() => scroller.dispatchEvent(new Event('scroll')));
  };
  vi.spyOn(Element.prototype, 'scrollTop', 'set').mockImplementation(function setTop(this: Element, to: number) {
    scroll(this, to);
  });
  vi.spyOn(Element.prototype, 'scrollHeight', 'get').mockImplementation(function height(this: Element) {
    return Math.max(VIEWPORT_PX, contentHeight(this));
  });
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockReturnValue(VIEWPORT_PX);
  Element.prototype.scrollTo = function scrollTo(this: Element, to?: ScrollToOptions | number) {
    if (typeof to === 'object') scroll(this, to.top ?? 0);
  };
  Element.prototype.scrollBy = function scrollBy(this: Element, by?: ScrollToOptions | number) {
    if (typeof by === 'object') scroll(this, this.scrollTop + (by.top ?? 0));
  };
}

export interface SeenRow {
  sequence: number;
  /** From the upper edge of the viewport. */
  top: number;
  bottom: number;
}

export function scrollerOf(container: Element): HTMLElement {
  const scroller = container.querySelector<HTMLElement>('.sdr-scroller');
  if (scroller === null) throw new Error('there is no transcript');
  return scroller;
}

/** The rows in the page, with where they are on the screen. */
export function rowsOf(container: Element): SeenRow[] {
  const scroller = scrollerOf(container);
  return [...scroller.querySelectorAll<HTMLElement>('[data-seq]')].map((row) => {
    const item = row.parentElement as HTMLElement;
    const top = Number.parseFloat(item.style.top) - scroller.scrollTop;
    const sequence = Number(row.dataset['seq']);
    return { sequence, top, bottom: top + rowHeight(sequence) };
  });
}

/** The row under the eye: the one at a third of the viewport. */
export function rowUnderEye(container: Element): SeenRow | undefined {
  const eye = VIEWPORT_PX / 3;
  return rowsOf(container).find((row) => row.top <= eye && row.bottom > eye);
}
