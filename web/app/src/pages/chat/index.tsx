/** Chat: conversations with agents. */
import { isRefusal, newIdempotencyKey, sessionEventsQueryKey, useSederuntClient } from '@sederunt/react';
import { useQueryClient } from '@tanstack/react-query';
import { MessagesSquare, Plus } from 'lucide-react';
import { type ReactNode, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { useLocation } from 'wouter';
import { personOf } from '../../auth/api.js';
import { useMe } from '../../auth/SignInProvider.js';
import { scopeOf } from '../../auth/signInGate.js';
import { Button } from '../../components/Button.js';
import { Sheet } from '../../components/Dialog.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { sessionListQueryKey, sessionQueryKey } from '../../data/queryKeys.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import { isNewChatAsked } from '../../lib/newChatAsked.js';
import { useMediaQuery, WIDE } from '../../lib/useMediaQuery.js';
import { usePageActions } from '../../palette/pageActions.js';
import { usePageTitle } from '../../shell/pageFrame.js';
import { NarrowBarContext } from './ChatBar.js';
import { ConversationList } from './ConversationList.js';
import { ConversationView, useChatSession } from './ConversationView.js';
import { chatTitle } from './chatSession.js';
import { type Drafts, draftsOf } from './drafts.js';
import { NewChat } from './NewChat.js';
import { OutgoingBubble } from './OutgoingBubble.js';
import { Outbox, type OutgoingMessage } from './outbox.js';
import { userIdOf, useSpeaker } from './speaker.js';
import { chatPath, newThreadId, threadOfPath } from './threadId.js';

function useOutbox(drafts: Drafts) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const outbox = useMemo(
    () =>
      new Outbox(client, drafts, {
        onOpened: (session) => {
          queries.setQueryData(sessionQueryKey(session.id), session);
          void queries.invalidateQueries({ queryKey: sessionListQueryKey() });
        },
        onAnswered: (id) => queries.invalidateQueries({ queryKey: sessionEventsQueryKey(id) }),
      }),
    [client, drafts, queries],
  );
  const messages = useSyncExternalStore(outbox.subscribe, outbox.messages);
  return { outbox, messages };
}

type Mail = ReturnType<typeof useOutbox>;

interface ChatPageProps {
  threadId: string;
  drafts: Drafts;
  mail: Mail;
  takesFocus: boolean;
  onNew: () => void;
}

/** A chat that the address names: it is there, it is on its way to the server, or there is none. */
function ChatOfAddress({ threadId, drafts, mail, takesFocus, onNew }: ChatPageProps) {
  const outgoing = mail.messages.filter((message) => message.threadId === threadId);
  const isBeingOpened = outgoing.some((message) => message.opensChat && message.state !== 'unsent');
  const { data: session, error, refetch } = useChatSession(threadId, !isBeingOpened);
  usePageTitle(session !== undefined ? chatTitle(session) : outgoing.length > 0 ? 'New chat' : 'Chat');
  if (session !== undefined) {
    return (
      <ConversationView
        key={threadId}
        threadId={threadId}
        session={session}
        outbox={mail.outbox}
        outgoing={outgoing}
        drafts={drafts}
        takesFocus={takesFocus}
        onNew={onNew}
      />
    );
  }
  if (outgoing.length > 0 && (isBeingOpened || error !== null)) {
    const edit = (text: string) => {
      drafts.write('new', text);
      onNew();
    };
    return <OpeningChat outgoing={outgoing} mail={mail} onEdit={edit} onNew={onNew} />;
  }
  if (error === null) {
    return (
      <div className="mx-auto max-w-3xl p-4">
        <Skeleton />
      </div>
    );
  }
  const isMissing = isRefusal(error) && error.status === 404;
  return (
    <div className="mx-auto max-w-xl p-6">
      <ErrorState
        error={error}
        onRetry={isMissing ? undefined : () => void refetch()}
        action={<Button onClick={onNew}>New chat</Button>}
      />
    </div>
  );
}

/** A chat that the server has not opened yet. */
function OpeningChat({ outgoing, mail, onEdit, onNew }: OpeningChatProps) {
  return (
    <div className="mx-auto grid max-w-3xl gap-4 px-4 py-4">
      {outgoing.map((message) => (
        <OutgoingBubble
          key={message.key}
          message={message}
          onRetry={() => mail.outbox.retry(message.key)}
          onEdit={() => onEdit(mail.outbox.remove(message.key) ?? '')}
          onDiscard={() => {
            mail.outbox.remove(message.key);
            onNew();
          }}
        />
      ))}
    </div>
  );
}

interface OpeningChatProps {
  outgoing: readonly OutgoingMessage[];
  mail: Mail;
  /** Takes the text back to the page of a new chat. */
  onEdit: (text: string) => void;
  onNew: () => void;
}

interface NewChatPageProps {
  drafts: Drafts;
  mail: Mail;
  takesFocus: boolean;
  onBegun: (threadId: string) => void;
}

function NewChatPage({ drafts, mail, takesFocus, onBegun }: NewChatPageProps) {
  const me = useMe();
  const speaker = useSpeaker();
  usePageTitle('New chat');
  const begin = (text: string, isIncognito: boolean) => {
    const threadId = newThreadId();
    mail.outbox.send({
      threadId,
      text,
      key: newIdempotencyKey(),
      mode: 'queue',
      opensChat: true,
      userId: userIdOf(me, speaker, isIncognito),
      isIncognito,
      afterSequence: 0,
    });
    onBegun(threadId);
  };
  return <NewChat drafts={drafts} onSend={begin} takesFocus={takesFocus} />;
}

/** The list stands at the left; on narrow screens it is a sheet behind a button. */
function ListFrame({ list, children }: { list: ReactNode; children: ReactNode }) {
  const isWide = useMediaQuery(WIDE);
  const [path] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const [row, setRow] = useState<HTMLElement | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another chat closes the sheet.
  useEffect(() => setOpen(false), [path]);
  if (isWide) {
    return (
      <div className="flex h-full min-h-0">
        <div className="w-72 shrink-0 border-r border-line p-2">{list}</div>
        <div className="min-w-0 flex-1">{children}</div>
      </div>
    );
  }
  return (
    <NarrowBarContext value={row}>
      <div className="flex h-full min-h-0 flex-col">
        <div ref={setRow} className="flex items-center gap-2 border-b border-line px-4 py-1">
          <Button kind="ghost" onClick={() => setOpen(true)}>
            <MessagesSquare size={14} aria-hidden="true" /> Chats
          </Button>
        </div>
        <Sheet side="left" title="Chats" isOpen={isOpen} onOpenChange={setOpen}>
          <div className="min-h-0 flex-1">{list}</div>
        </Sheet>
        <div className="min-h-0 flex-1">{children}</div>
      </div>
    </NarrowBarContext>
  );
}

function NoSuchChat({ onNew }: { onNew: () => void }) {
  usePageTitle('Chat');
  return <EmptyState action={<Button onClick={onNew}>New chat</Button>}>This address names no chat.</EmptyState>;
}

export function Page() {
  const [, navigate] = useLocation();
  const me = useMe();
  const scope = scopeOf(personOf(me));
  const drafts = useMemo(() => draftsOf(scope), [scope]);
  const mail = useOutbox(drafts);
  /** How often the person asked for a new chat: each time the composer takes the focus. */
  const [asked, setAsked] = useState(() => (isNewChatAsked(window.history.state) ? 1 : 0));
  const [begun, setBegun] = useState<string | null>(null);
  // The browser's own path: the router decodes its own in part.
  const shown = threadOfPath(window.location.pathname);

  const newChat = () => {
    setAsked((before) => before + 1);
    navigate('/chat');
  };
  usePageActions([{ id: 'new-chat', words: 'New chat', shortcut: 'new-chat', icon: Plus, run: newChat }]);
  useKey('leave', () => (shown === null ? false : navigate('/chat')));

  return (
    <ListFrame list={<ConversationList shown={shown ?? null} onNew={newChat} />}>
      {shown === undefined && <NoSuchChat onNew={newChat} />}
      {shown === null && (
        <NewChatPage
          key={asked}
          drafts={drafts}
          mail={mail}
          takesFocus={asked > 0}
          onBegun={(threadId) => {
            setBegun(threadId);
            navigate(chatPath(threadId), { replace: true });
          }}
        />
      )}
      {typeof shown === 'string' && (
        <ChatOfAddress
          key={shown}
          threadId={shown}
          drafts={drafts}
          mail={mail}
          takesFocus={begun === shown}
          onNew={newChat}
        />
      )}
    </ListFrame>
  );
}
