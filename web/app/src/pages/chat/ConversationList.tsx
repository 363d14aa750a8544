/** The list of conversations, live: those of now, and on demand the hidden ones. */
import { type Session, useHintRefetch, useSederuntClient } from '@sederunt/react';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { MoreHorizontal, Plus } from 'lucide-react';
import { useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { Button } from '../../components/Button.js';
import { classNames } from '../../components/classNames.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { IconButton } from '../../components/IconButton.js';
import { Menu } from '../../components/Menu.js';
import { Skeleton } from '../../components/Skeleton.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import { type ListCursor, useListCursor } from '../../keyboard/useListCursor.js';
import { chatTitle, isChat, isIncognito } from './chatSession.js';
import { chatListQueryKey } from './queryKeys.js';
import { chatPath } from './threadId.js';
import { useChatActions } from './useChatActions.js';

const PAGE_SIZE = 50;

/** One kind of list, newest activity first. */
function useChats(isHidden: boolean, isWanted: boolean) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = chatListQueryKey(isHidden);
  useHintRefetch(
    (hint) => isWanted && hint.topic === 'sessions' && hint.sessions.some((one) => one.row_changed || one.deleted),
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      client.get('/api/sessions', {
        query: {
          session_type: 'mixed',
          limit: PAGE_SIZE,
          ...(isHidden ? { inactive: true } : {}),
          ...(pageParam === null ? {} : { cursor: pageParam }),
        },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
    enabled: isWanted,
  });
  const readAgain = () => void (query.isFetchNextPageError ? query.fetchNextPage() : query.refetch());
  return { ...query, readAgain, chats: (query.data?.pages ?? []).flatMap((page) => page.items).filter(isChat) };
}

interface ChatRowProps {
  session: Session;
  isShown: boolean;
  cursor: ListCursor;
  isMenuOpen: boolean;
  onMenu: (isOpen: boolean) => void;
  onGone: (id: string) => void;
}

function ChatListRow({ session, isShown, cursor, isMenuOpen, onMenu, onGone }: ChatRowProps) {
  const { items, dialogs } = useChatActions(session, onGone);
  const { ref, ...rowProps } = cursor.rowProps(session.id);
  const title = chatTitle(session);
  const preview = session.last_message_preview ?? '';
  const isRunning = session.status === 'running';
  const waits = session.status === 'awaiting_tool';
  return (
    <li
      className={classNames(
        'group relative flex items-center rounded-control hover:bg-raised has-data-[current=true]:bg-raised',
        isShown && 'bg-raised',
      )}
    >
      <Link
        href={chatPath(session.id)}
        data-row=""
        {...rowProps}
        ref={ref}
        aria-current={isShown ? 'page' : undefined}
        className="grid min-h-12 min-w-0 grid-cols-[minmax(0,1fr)] flex-1 content-center rounded-control py-1 pr-3 pl-3 text-row"
      >
        <span className="flex items-center gap-2">
          {isRunning && (
            <span className="breathing text-running">
              <span aria-hidden="true">●</span>
              <span className="sr-only">Writing a reply:</span>
            </span>
          )}
          {waits && (
            <span className="text-awaiting-tool">
              <span aria-hidden="true">◑</span>
              <span className="sr-only">Waits for your permission:</span>
            </span>
          )}
          <span dir="auto" className={classNames('min-w-0 flex-1 truncate', isShown && 'font-semibold')}>
            {title}
          </span>
          <TimeAgo
            at={session.last_activity_at}
            className="shrink-0 text-meta text-soft group-focus-within:invisible group-hover:invisible group-has-data-[state=open]:invisible pointer-coarse:invisible"
          />
        </span>
        <span dir="auto" className="truncate text-meta text-soft">
          {isIncognito(session) ? 'incognito' : preview}
        </span>
      </Link>
      <span className="absolute top-1 right-1 rounded-control bg-raised opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100">
        <Menu
          isOpen={isMenuOpen}
          onOpenChange={onMenu}
          trigger={
            <IconButton label={`Actions of “${title}”`} shortcut="actions">
              <MoreHorizontal size={14} aria-hidden="true" />
            </IconButton>
          }
        >
          {items}
        </Menu>
      </span>
      {dialogs}
    </li>
  );
}

export interface ConversationListProps {
  /** The chat on screen, or null for a new one. */
  shown: string | null;
  onNew: () => void;
}

export function ConversationList({ shown, onNew }: ConversationListProps) {
  const [, navigate] = useLocation();
  const [showsHidden, setShowsHidden] = useState(false);
  const [words, setWords] = useState('');
  const [menuOf, setMenuOf] = useState<string | null>(null);
  const search = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLElement>(null);
  const live = useChats(false, true);
  const hidden = useChats(true, showsHidden);
  const wanted = words.trim().toLocaleLowerCase();
  const fits = (session: Session) =>
    wanted === '' || `${chatTitle(session)} ${session.last_message_preview ?? ''}`.toLocaleLowerCase().includes(wanted);
  const liveRows = live.chats.filter(fits);
  const hiddenRows = showsHidden ? hidden.chats.filter(fits) : [];
  const cursor = useListCursor(
    [...liveRows, ...hiddenRows].map((session) => session.id),
    (id) => navigate(chatPath(id)),
  );
  const isInList = () => list.current?.contains(document.activeElement) === true;
  useKey('search', () => search.current?.focus());
  useKey('actions', () => {
    if (cursor.current === undefined || !isInList()) return false;
    setMenuOf(cursor.current);
    return true;
  });
  const onGone = (id: string) => {
    if (id === shown) navigate('/chat');
  };
  const rows = (sessions: readonly Session[]) =>
    sessions.map((session) => (
      <ChatListRow
        key={session.id}
        session={session}
        isShown={session.id === shown}
        cursor={cursor}
        isMenuOpen={menuOf === session.id}
        onMenu={(isOpen) => setMenuOf(isOpen ? session.id : null)}
        onGone={onGone}
      />
    ));

  return (
    <nav ref={list} aria-label="Chats" className="flex h-full min-h-0 flex-col gap-2">
      <Button shortcut="new-chat" onClick={onNew} className="justify-start">
        <Plus size={14} aria-hidden="true" />
        <span className="flex-1 text-left">New chat</span>
      </Button>
      <input
        ref={search}
        type="search"
        aria-label="Filter chats"
        placeholder="Filter…  /"
        value={words}
        onChange={(event) => setWords(event.target.value)}
        className="min-h-8 rounded-control border border-edge bg-paper px-2 text-row pointer-coarse:min-h-11"
      />
      <div className="min-h-0 flex-1 overflow-y-auto">
        {live.isPending && <Skeleton rows={5} />}
        {live.error !== null && <ErrorState error={live.error} onRetry={live.readAgain} />}
        {live.data !== undefined && liveRows.length === 0 && (
          <EmptyState>{wanted === '' ? 'No chats yet.' : 'No chat fits these words.'}</EmptyState>
        )}
        <ul className="grid grid-cols-[minmax(0,1fr)] gap-px">{rows(liveRows)}</ul>
        {live.hasNextPage && (
          <Button kind="ghost" isBusy={live.isFetchingNextPage} onClick={() => void live.fetchNextPage()}>
            Show older
          </Button>
        )}
        <Button kind="ghost" aria-expanded={showsHidden} onClick={() => setShowsHidden(!showsHidden)} className="mt-2">
          {showsHidden ? 'Fold the hidden ones' : 'Show hidden'}
        </Button>
        {showsHidden && (
          <>
            {hidden.isPending && <Skeleton rows={2} />}
            {hidden.error !== null && <ErrorState error={hidden.error} onRetry={hidden.readAgain} />}
            {hidden.data !== undefined && hiddenRows.length === 0 && <EmptyState>Nothing is hidden.</EmptyState>}
            <ul aria-label="Hidden chats" className="grid grid-cols-[minmax(0,1fr)] gap-px">
              {rows(hiddenRows)}
            </ul>
            {hidden.hasNextPage && (
              <Button kind="ghost" isBusy={hidden.isFetchingNextPage} onClick={() => void hidden.fetchNextPage()}>
                Show older
              </Button>
            )}
          </>
        )}
      </div>
    </nav>
  );
}
