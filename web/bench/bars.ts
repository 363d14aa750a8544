/** What the app has to reach, on two idle cores. */
export interface Bar {
  what: string;
  unit: string;
  max: number;
}

export const BARS = {
  'first-load-size': { what: 'JavaScript that Today needs, compressed', unit: 'KB', max: 250 },
  interactive: { what: 'Today is there and answers, after the navigation', unit: 'ms', max: 1000 },
  open: { what: 'newest rows of 50,000 on screen, after the click', unit: 'ms', max: 150 },
  'in-memory': { what: 'the same with all 50,000 read at once', unit: 'ms', max: 300 },
  'tasks-over-50': { what: 'tasks over 50 ms while scrolling, at 200 appends/s', unit: '', max: 2 },
  'longest-task': { what: 'longest of these tasks', unit: 'ms', max: 100 },
  rows: { what: 'rows in the page', unit: '', max: 60 },
  heap: { what: 'JavaScript heap of the tab', unit: 'MB', max: 120 },
  event: { what: 'appended event on screen, p95', unit: 'ms', max: 50 },
  delta: { what: 'delta on screen, p95', unit: 'ms', max: 50 },
  'earlier-drift': { what: 'row under the eye moves, 10 × load earlier', unit: 'px', max: 1 },
  'append-drift': { what: 'row under the eye moves, appends while reading', unit: 'px', max: 1 },
  lost: { what: 'lost server shown', unit: 'ms', max: 1000 },
  'live-again': { what: 'live again, after the server listens', unit: 'ms', max: 2000 },
} as const satisfies Record<string, Bar>;

export type BarName = keyof typeof BARS;
export type Figures = Partial<Record<BarName, number>>;

/** The bars that the figures do not reach. */
export function missed(figures: Figures): BarName[] {
  return (Object.keys(figures) as BarName[]).filter((name) => {
    const figure = figures[name];
    return figure === undefined || !(figure <= BARS[name].max);
  });
}

/** The value that 95 of 100 do not exceed. */
export function p95(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
