/** The scrolling part of a chat. It stays at the end until the reader scrolls up, and keeps the reader's place when rows come. */
import { contentText, firstSentence, metadataText, type SessionEvent, saidText } from '@sederunt/react';
import { ArrowDown } from 'lucide-react';
import { memo, type ReactNode, type RefObject, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Button } from '../../components/Button.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';
import { ChatMessage } from './ChatMessage.js';
import { type ChatRow, readEnded } from './chatRows.js';
import { endSentence } from './EndCard.js';
import { ToolCall } from './ToolCall.js';

/** Nearer to the end than this, the reader follows it. */
const FOLLOW_PX = 80;
const OTHER_CHARS_MAX = 500;

function isSameRow(a: ChatRow, b: ChatRow): boolean {
  if (a.kind !== b.kind || a.event !== b.event) return false;
  if (a.kind === 'call' && b.kind === 'call') return a.result === b.result;
  if (a.kind !== 'said' || b.kind !== 'said') return true;
  return a.isWaiting === b.isWaiting && a.isCut === b.isCut && a.isCrisis === b.isCrisis;
}

function Quiet({ children }: { children: ReactNode }) {
  return (
    <p dir="auto" className="wrap-anywhere text-row text-soft">
      {children}
    </p>
  );
}

function RowView({ row, own }: { row: ChatRow; own: string | null }) {
  switch (row.kind) {
    case 'said':
      return <ChatMessage row={row} own={own} />;
    case 'call':
      return <ToolCall row={row} />;
    case 'thinking':
      return (
        <details className="text-row text-soft">
          <summary>Thinking</summary>
          <p dir="auto" className="wrap-anywhere whitespace-pre-wrap">
            {contentText(row.event.content).slice(0, 20_000)}
          </p>
        </details>
      );
    case 'failure':
      return (
        <p dir="auto" className="rounded-control border border-line bg-raised px-3 py-2 text-row text-error">
          No reply: {metadataText(row.event, 'message') ?? metadataText(row.event, 'code') ?? 'the turn failed'}
        </p>
      );
    case 'stopped':
      return <Quiet>Stopped before anything was said.</Quiet>;
    case 'ended':
      return (
        <div className="flex items-center gap-3 text-meta text-soft">
          <span className="h-px flex-1 bg-line" />
          {endSentence(readEnded(row.event))}
          <span className="h-px flex-1 bg-line" />
        </div>
      );
    default:
      return (
        <Quiet>
          <code className="font-mono text-meta">{row.event.type.slice(0, 80)}</code>{' '}
          {contentText(row.event.content).slice(0, OTHER_CHARS_MAX)}
        </Quiet>
      );
  }
}

const Row = memo(RowView, (a, b) => a.own === b.own && isSameRow(a.row, b.row));

/** The one owner of the scroll position. Growth never counts as scrolling up. */
function useFollowedEnd(
  scroller: RefObject<HTMLDivElement | null>,
  content: RefObject<HTMLDivElement | null>,
  first: number,
) {
  const [isFollowing, setFollowing] = useState(true);
  const place = useRef({ isFollowing: true, top: 0, height: 0, first });
  const follow = (is: boolean) => {
    place.current.isFollowing = is;
    setFollowing(is);
  };
  const stick = () => {
    const element = scroller.current;
    if (element === null) return;
    if (place.current.isFollowing) element.scrollTop = element.scrollHeight;
    place.current.height = element.scrollHeight;
  };
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element !== null && first < place.current.first && !place.current.isFollowing) {
      element.scrollTop = place.current.top + element.scrollHeight - place.current.height;
    }
    place.current.first = first;
    place.current.height = element?.scrollHeight ?? 0;
  }, [first, scroller]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one observer for as long as the log is shown.
  useLayoutEffect(() => {
    stick();
    const observer = new ResizeObserver(stick);
    if (content.current !== null) observer.observe(content.current);
    if (scroller.current !== null) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);
  return {
    isFollowing,
    onScroll: () => {
      const element = scroller.current;
      if (element === null) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      if (scrollHeight - clientHeight - scrollTop <= FOLLOW_PX) follow(true);
      else if (scrollTop < place.current.top) follow(false);
      place.current.top = scrollTop;
    },
    toEnd: () => {
      follow(true);
      stick();
    },
    toStart: () => {
      follow(false);
      scroller.current?.scrollTo(0, 0);
      place.current.top = 0;
    },
  };
}

/** One sentence for each finished reply, and for each question for permission, that comes while the page is open. */
function useAnnouncement(events: readonly SessionEvent[], asksPermission: boolean): string {
  const [said, setSaid] = useState('');
  const asked = useRef(asksPermission);
  useEffect(() => {
    if (asksPermission && !asked.current) setSaid('The agent wants your permission.');
    asked.current = asksPermission;
  }, [asksPermission]);
  const heardUpTo = useRef<number | undefined>(undefined);
  const last = events.findLast((event) => event.type === 'agent.message');
  const end = events.at(-1)?.sequence;
  useEffect(() => {
    if (end === undefined) return;
    const isNew = heardUpTo.current !== undefined && last !== undefined && last.sequence > heardUpTo.current;
    heardUpTo.current = end;
    const text = last === undefined ? '' : saidText(last);
    if (isNew && text !== '') setSaid(`Reply: ${firstSentence(text)}`);
  }, [last, end]);
  return said;
}

export interface ChatLogProps {
  rows: readonly ChatRow[];
  events: readonly SessionEvent[];
  /** The id of the person who looks. */
  own: string | null;
  /** A call of a tool waits for the person. */
  asksPermission: boolean;
  hasMore: boolean;
  isLoadingMore: boolean;
  onLoadMore: () => void;
  /** The reply that is being written; messages that wait for their turn stand after it. */
  draft: ReactNode;
  /** What stands after everything that was said. */
  children: ReactNode;
}

function isWaiting(row: ChatRow): boolean {
  return row.kind === 'said' && row.isWaiting;
}

export function ChatLog(props: ChatLogProps) {
  const { rows, events, own, hasMore, isLoadingMore, onLoadMore, draft, children } = props;
  const draw = (row: ChatRow) => <Row key={row.key} row={row} own={own} />;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const { isFollowing, onScroll, toEnd, toStart } = useFollowedEnd(scroller, content, events[0]?.sequence ?? 0);
  const announced = useAnnouncement(events, props.asksPermission);
  useKeys({ newest: toEnd, oldest: toStart });
  return (
    <div className="relative min-h-0 flex-1">
      <section
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region has to be reachable by keyboard.
        tabIndex={0}
        aria-label="Conversation"
        onScroll={onScroll}
        style={{ overflowAnchor: 'none' }}
        className="h-full overflow-y-auto"
      >
        <div ref={content} className="mx-auto grid max-w-3xl gap-4 px-4 py-4 *:min-w-0">
          {hasMore && (
            <Button kind="ghost" isBusy={isLoadingMore} onClick={onLoadMore}>
              Load earlier
            </Button>
          )}
          {rows.filter((row) => !isWaiting(row)).map(draw)}
          {draft}
          {rows.filter(isWaiting).map(draw)}
          {children}
        </div>
      </section>
      {!isFollowing && (
        <div className="pointer-events-none absolute inset-x-0 bottom-2 flex justify-center">
          <Button shortcut="newest" className="pointer-events-auto shadow-layer" onClick={toEnd}>
            <ArrowDown size={14} aria-hidden="true" /> Newest
          </Button>
        </div>
      )}
      <p aria-live="polite" className="sr-only">
        {announced}
      </p>
    </div>
  );
}
