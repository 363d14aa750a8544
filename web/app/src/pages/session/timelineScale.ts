/** From times to places on the timeline. Long stretches in which only waiting happens are folded, so that bursts stay readable. */
import type { TimelineBar } from './timelineBars.js';

export interface Stretch {
  from: number;
  to: number;
  isFolded: boolean;
  /** Where it begins and ends, from 0 to 1. */
  left: number;
  right: number;
}

export interface TimelineScale {
  stretches: readonly Stretch[];
  place: (time: number) => number;
  timeAt: (place: number) => number;
}

/** Stretches longer than so many medians are folded. */
const FOLD_MEDIANS = 10;
/** Shorter ones are not worth a fold. */
const FOLD_MS_MIN = 1_000;
/** What a fold takes of the width; many folds share half of it. */
const FOLD_WIDTH = 0.04;
const FOLDS_WIDTH_MAX = 0.5;

function median(lengths: readonly number[]): number {
  const sorted = [...lengths].sort((one, other) => one - other);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}

/** The times at which something begins or ends, each once and in order, within the range. */
function boundaries(bars: readonly TimelineBar[], from: number, to: number): readonly number[] {
  const times = new Set([from, to]);
  for (const bar of bars) {
    if (bar.start > from && bar.start < to) times.add(bar.start);
    if (bar.end > from && bar.end < to) times.add(bar.end);
  }
  return [...times].sort((one, other) => one - other);
}

/** Whether a call or a reply lasts over each of the stretches between the times. */
function busyStretches(bars: readonly TimelineBar[], times: readonly number[]): readonly boolean[] {
  const at = new Map(times.map((time, index) => [time, index]));
  const changes = new Array<number>(times.length + 1).fill(0);
  const first = times[0] ?? 0;
  const last = times.at(-1) ?? 0;
  for (const bar of bars) {
    if (bar.kind === 'wait' || bar.end <= first || bar.start >= last) continue;
    const begins = at.get(Math.max(bar.start, first)) ?? 0;
    const ends = at.get(Math.min(bar.end, last)) ?? times.length;
    changes[begins] = (changes[begins] ?? 0) + 1;
    changes[ends] = (changes[ends] ?? 0) - 1;
  }
  let running = 0;
  return times.slice(0, -1).map((_, index) => {
    running += changes[index] ?? 0;
    return running > 0;
  });
}

/** Folded neighbours are one fold. */
function joined(stretches: readonly Omit<Stretch, 'left' | 'right'>[]) {
  const result: Omit<Stretch, 'left' | 'right'>[] = [];
  for (const one of stretches) {
    const before = result.at(-1);
    if (before !== undefined && before.isFolded === one.isFolded) before.to = one.to;
    else result.push({ ...one });
  }
  return result;
}

export function timelineScale(bars: readonly TimelineBar[], from: number, to: number): TimelineScale {
  const end = to > from ? to : from + 1;
  const times = boundaries(bars, from, end);
  const busy = busyStretches(bars, times);
  const lengths = busy.map((_, index) => (times[index + 1] ?? 0) - (times[index] ?? 0));
  const limit = Math.max(FOLD_MEDIANS * median(lengths.filter((length) => length > 0)), FOLD_MS_MIN);
  const plain = joined(
    busy.map((isBusy, index) => ({
      from: times[index] ?? from,
      to: times[index + 1] ?? end,
      isFolded: !isBusy && (lengths[index] ?? 0) > limit,
    })),
  );
  const folds = plain.filter((one) => one.isFolded).length;
  const isAllFolded = folds === plain.length;
  const foldWidth = isAllFolded ? 1 / folds : Math.min(FOLD_WIDTH, FOLDS_WIDTH_MAX / Math.max(1, folds));
  const open = plain.reduce((sum, one) => sum + (one.isFolded ? 0 : one.to - one.from), 0);
  const openWidth = 1 - folds * foldWidth;
  let left = 0;
  const stretches = plain.map((one): Stretch => {
    const width = one.isFolded ? foldWidth : ((one.to - one.from) / Math.max(1, open)) * openWidth;
    const stretch = { ...one, left, right: left + width };
    left += width;
    return stretch;
  });
  return {
    stretches,
    place: (time) => {
      const one = find(stretches, (stretch) => stretch.to >= time);
      const share = (Math.min(Math.max(time, one.from), one.to) - one.from) / (one.to - one.from);
      return one.left + share * (one.right - one.left);
    },
    timeAt: (place) => {
      const one = find(stretches, (stretch) => stretch.right >= place);
      const share = (Math.min(Math.max(place, one.left), one.right) - one.left) / Math.max(1e-9, one.right - one.left);
      return one.from + share * (one.to - one.from);
    },
  };
}

/** The first stretch that fits, or the last one. There is always one. */
function find(stretches: readonly Stretch[], fits: (stretch: Stretch) => boolean): Stretch {
  let low = 0;
  let high = stretches.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (fits(stretches[middle] as Stretch)) high = middle;
    else low = middle + 1;
  }
  return stretches[low] as Stretch;
}
