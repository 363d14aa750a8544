/** The timeline of a session: one bar per call, reply and wait. Drag over the axis to zoom; a bar leads to its event. */
import { durationText, isTerminalStatus, type Session, useSessionEvents, useSessionRealtime } from '@sederunt/react';
import { type PointerEvent, useMemo, useState } from 'react';
import { Button } from '../../components/Button.js';
import { classNames } from '../../components/classNames.js';
import { useNow } from '../../components/clock.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { useListCursor } from '../../keyboard/useListCursor.js';
import { type BarKind, type TimelineBar, timelineBars } from './timelineBars.js';
import { type TimelineScale, timelineScale } from './timelineScale.js';

const ROW_PX = 28;
const VIEW_PX = 560;
/** Rows that are drawn outside of the view. */
const OVERSCAN = 10;

const LOOKS: Record<BarKind, string> = {
  call: 'bg-running-tint border-running',
  reply: 'bg-completed-tint border-completed',
  wait: 'bg-waiting-human-tint border-waiting-human border-dashed',
};
const KIND_WORDS: Record<BarKind, string> = { call: 'call', reply: 'reply', wait: 'wait' };

interface TimeRange {
  from: number;
  to: number;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(3)}%`;
}

/** How long, to a tenth of a second where that is short. */
function tookText(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : durationText(ms);
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const;

/** About how long, in one unit. */
function aboutText(ms: number): string {
  const [unit, length] = UNITS.find(([, one]) => ms >= one) ?? (['s', 1_000] as const);
  return `${Math.round(ms / length)} ${unit}`;
}

function timeText(time: number): string {
  return new Date(time).toLocaleTimeString(undefined, { hour12: false });
}

interface AxisProps {
  scale: TimelineScale;
  range: TimeRange;
  onZoom: (range: TimeRange) => void;
}

/** The strip of times over the bars. Dragging over it chooses a range. */
function Axis({ scale, range, onZoom }: AxisProps) {
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const placeOf = (event: PointerEvent<HTMLElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return box.width === 0 ? 0 : Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const end = () => {
    if (drag === null) return;
    setDrag(null);
    const [left, right] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if (right - left > 0.01) onZoom({ from: scale.timeAt(left), to: scale.timeAt(right) });
  };
  return (
    <div
      aria-hidden="true"
      title="Drag to zoom"
      className="relative h-7 cursor-crosshair touch-none overflow-hidden border-b border-line select-none"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture?.(event.pointerId);
        const place = placeOf(event);
        setDrag({ from: place, to: place });
      }}
      onPointerMove={(event) => setDrag((before) => before && { ...before, to: placeOf(event) })}
      onPointerUp={end}
      onPointerCancel={() => setDrag(null)}
    >
      <span className="figures absolute left-1 text-meta leading-7 text-soft">{timeText(range.from)}</span>
      <span className="figures absolute right-1 text-meta leading-7 text-soft">{timeText(range.to)}</span>
      {scale.stretches.map(
        (stretch) =>
          stretch.isFolded && (
            <span
              key={stretch.from}
              className="absolute inset-y-0 overflow-visible bg-paper text-center text-meta leading-7 whitespace-nowrap text-soft"
              style={{ left: percent(stretch.left), width: percent(stretch.right - stretch.left) }}
            >
              ⋯ {aboutText(stretch.to - stretch.from)}
            </span>
          ),
      )}
      {drag !== null && (
        <span
          className="absolute inset-y-0 bg-focus opacity-30"
          style={{ left: percent(Math.min(drag.from, drag.to)), width: percent(Math.abs(drag.to - drag.from)) }}
        />
      )}
    </div>
  );
}

function barSentence(bar: TimelineBar): string {
  const took = bar.isOpen ? `for ${tookText(bar.end - bar.start)} so far` : tookText(bar.end - bar.start);
  return `${KIND_WORDS[bar.kind]} ${bar.label}, ${took}, at ${timeText(bar.start)}${bar.isFailed ? ', failed' : ''}`;
}

interface BarRowProps {
  bar: TimelineBar;
  top: number;
  scale: TimelineScale;
  isSelected: boolean;
  rowProps: ReturnType<ReturnType<typeof useListCursor>['rowProps']>;
  onOpen: () => void;
}

function BarRow({ bar, top, scale, isSelected, rowProps, onOpen }: BarRowProps) {
  const left = scale.place(bar.start);
  const right = scale.place(bar.end);
  // Where the right half of the bar's row is free, the words stand there; else before the bar.
  const isWordsAfter = right < 0.6;
  const { ref, ...row } = rowProps;
  return (
    <li className="absolute inset-x-0" style={{ top, height: ROW_PX }}>
      <button
        type="button"
        data-inline=""
        ref={ref}
        {...row}
        aria-label={barSentence(bar)}
        aria-current={isSelected || undefined}
        onClick={onOpen}
        className="relative block size-full overflow-hidden hover:bg-sunken aria-current:bg-sunken data-[current=true]:bg-sunken"
      >
        <span
          className={classNames(
            'absolute inset-y-1 min-w-1 rounded-control border',
            bar.isFailed ? 'border-failed bg-failed-tint' : LOOKS[bar.kind],
          )}
          style={{ left: percent(left), width: percent(right - left) }}
        />
        <span
          dir="auto"
          className="absolute inset-y-0 truncate px-2 text-left text-meta leading-7"
          style={
            isWordsAfter
              ? { left: percent(right), right: 0 }
              : { right: percent(1 - Math.max(left, 0.4)), left: 0, textAlign: 'right' }
          }
        >
          <span className="sr-only">{KIND_WORDS[bar.kind]} </span>
          {bar.isFailed && '✕ '}
          {bar.label} <span className="figures text-soft">{tookText(bar.end - bar.start)}</span>
        </span>
      </button>
    </li>
  );
}

function zoomed({ from, to }: TimeRange, factor: number, whole: TimeRange): TimeRange {
  const middle = (from + to) / 2;
  const half = ((to - from) / 2) * factor;
  return { from: Math.max(whole.from, middle - half), to: Math.min(whole.to, middle + half) };
}

function moved({ from, to }: TimeRange, share: number, whole: TimeRange): TimeRange {
  const by = Math.min(Math.max((to - from) * share, whole.from - from), whole.to - to);
  return { from: from + by, to: to + by };
}

interface ZoomButtonsProps {
  range: TimeRange;
  whole: TimeRange;
  isZoomed: boolean;
  onZoom: (range: TimeRange | null) => void;
}

function ZoomButtons({ range, whole, isZoomed, onZoom }: ZoomButtonsProps) {
  return (
    <fieldset className="flex flex-wrap items-center gap-1">
      <legend className="sr-only">Range of time</legend>
      <Button kind="ghost" onClick={() => onZoom(zoomed(range, 0.5, whole))}>
        Zoom in
      </Button>
      <Button kind="ghost" disabled={!isZoomed} onClick={() => onZoom(zoomed(range, 2, whole))}>
        Zoom out
      </Button>
      <Button kind="ghost" disabled={!isZoomed} onClick={() => onZoom(moved(range, -0.5, whole))}>
        ← Earlier
      </Button>
      <Button kind="ghost" disabled={!isZoomed} onClick={() => onZoom(moved(range, 0.5, whole))}>
        Later →
      </Button>
      <Button kind="ghost" disabled={!isZoomed} onClick={() => onZoom(null)}>
        Whole
      </Button>
    </fieldset>
  );
}

function Legend() {
  return (
    <ul aria-label="Signs" className="flex gap-3 text-meta text-soft">
      {(['call', 'reply', 'wait'] as const).map((kind) => (
        <li key={kind} className="flex items-center gap-1">
          <span aria-hidden="true" className={classNames('h-3 w-5 rounded-control border', LOOKS[kind])} />
          {KIND_WORDS[kind]}
        </li>
      ))}
    </ul>
  );
}

interface TimelineTabProps {
  row: Session;
  seq: number | null;
  onOpen: (sequence: number) => void;
}

export function TimelineTab({ row, seq, onOpen }: TimelineTabProps) {
  const log = useSessionEvents(row.id);
  useSessionRealtime(row.id);
  const isOver = isTerminalStatus(row.status) || row.status === 'idle';
  const now = useNow();
  const bars = useMemo(() => timelineBars(log.events, now, isOver), [log.events, now, isOver]);
  const [zoom, setZoom] = useState<TimeRange | null>(null);
  const [scrollTop, setScrollTop] = useState(0);
  const whole = useMemo<TimeRange>(
    () => ({
      from: bars[0]?.start ?? 0,
      to: bars.reduce((most, bar) => Math.max(most, bar.end), bars[0]?.start ?? 0),
    }),
    [bars],
  );
  const range = zoom ?? whole;
  const seen = useMemo(
    () => (zoom === null ? bars : bars.filter((bar) => bar.end >= zoom.from && bar.start <= zoom.to)),
    [bars, zoom],
  );
  const scale = useMemo(() => timelineScale(seen, range.from, range.to), [seen, range.from, range.to]);
  const ids = useMemo(() => seen.map((bar) => `${bar.kind}${bar.sequence}`), [seen]);
  const cursor = useListCursor(ids, (id) => {
    const bar = seen[ids.indexOf(id)];
    if (bar !== undefined) onOpen(bar.sequence);
  });

  if (log.error !== null && log.events.length === 0) {
    return <ErrorState error={log.error} onRetry={() => void log.refetch()} />;
  }
  if (log.isLoading) return <Skeleton />;
  const earlier = log.hasMore && (
    <Button isBusy={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
      {log.isFetchingNextPage ? 'Looking further back…' : 'Load earlier events'}
    </Button>
  );
  if (bars.length === 0) {
    return <EmptyState action={earlier}>Nothing took time yet. Calls, replies and waits appear here.</EmptyState>;
  }
  const first = Math.max(0, Math.floor(scrollTop / ROW_PX) - OVERSCAN);
  const drawn = seen.slice(first, first + Math.ceil(VIEW_PX / ROW_PX) + 2 * OVERSCAN);
  return (
    <div className="grid min-w-0 gap-2">
      <div className="flex flex-wrap items-center gap-3">
        <ZoomButtons range={range} whole={whole} isZoomed={zoom !== null} onZoom={setZoom} />
        <Legend />
        {earlier}
      </div>
      <div className="overflow-hidden rounded-card border border-line bg-raised">
        <Axis scale={scale} range={range} onZoom={setZoom} />
        <div
          className="relative overflow-x-hidden overflow-y-auto"
          style={{ maxHeight: VIEW_PX }}
          onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
        >
          <ol aria-label="Timeline" className="relative" style={{ height: seen.length * ROW_PX }}>
            {drawn.map((bar, index) => {
              const id = `${bar.kind}${bar.sequence}`;
              return (
                <BarRow
                  key={id}
                  bar={bar}
                  top={(first + index) * ROW_PX}
                  scale={scale}
                  isSelected={bar.sequence === seq}
                  rowProps={cursor.rowProps(id)}
                  onOpen={() => onOpen(bar.sequence)}
                />
              );
            })}
          </ol>
        </div>
      </div>
    </div>
  );
}
