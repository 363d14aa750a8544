/** One conversation: its log, the reply that is being written, the composer, and the card at the end of a sitting. */
import {
  isRefusal,
  newIdempotencyKey,
  type Session,
  useHintRefetch,
  useSederuntClient,
  useSessionEvents,
  useSessionRealtime,
} from '@sederunt/react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { MoreHorizontal } from 'lucide-react';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { useMe } from '../../auth/SignInProvider.js';
import { Button } from '../../components/Button.js';
import { ErrorState } from '../../components/ErrorState.js';
import { IconButton } from '../../components/IconButton.js';
import { Menu } from '../../components/Menu.js';
import { Skeleton } from '../../components/Skeleton.js';
import { useToast } from '../../components/ToastProvider.js';
import { sessionQueryKey } from '../../data/queryKeys.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import { usePageActions } from '../../palette/pageActions.js';
import { useNoteVisit } from '../../palette/visits.js';
import { ChatBar } from './ChatBar.js';
import { ChatLog } from './ChatLog.js';
import { Composer, type ComposerHandle } from './Composer.js';
import { Confirmation } from './Confirmation.js';
import { type EndedSitting, isBusyStatus, readConversation } from './chatRows.js';
import { chatTitle, isIncognito } from './chatSession.js';
import { DraftReply } from './DraftReply.js';
import type { BusyMode, Drafts } from './drafts.js';
import { EndCard } from './EndCard.js';
import { OutgoingBubble } from './OutgoingBubble.js';
import type { Outbox, OutgoingMessage } from './outbox.js';
import { userIdOf, useSpeaker } from './speaker.js';
import { chatPath } from './threadId.js';
import { useChatActions } from './useChatActions.js';

/** The row of a chat, kept fresh by hints. It is not asked for while the chat is being opened. */
export function useChatSession(threadId: string, isAsked: boolean) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = sessionQueryKey(threadId);
  useHintRefetch(
    (hint) => hint.topic === 'sessions' && hint.sessions.some((one) => one.id === threadId && one.row_changed),
    () => void queries.invalidateQueries({ queryKey, exact: true }),
  );
  return useQuery<Session, Error>({
    queryKey,
    // Only to share links the server shows a part of the row.
    queryFn: async ({ signal }) =>
      (await client.get('/api/sessions/{id}', { path: { id: threadId }, signal })) as Session,
    enabled: isAsked,
  });
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? '' : '.');
}

/** The card asks for the rating afterwards. */
const NO_RATING = { feedback: null, discard: null, memory_mode: null };

/** Stops the turn that runs, and ends the sitting. */
function useTurnCalls(threadId: string) {
  const client = useSederuntClient();
  const toast = useToast();
  const stop = useMutation({
    mutationFn: () =>
      client.post('/api/sessions/{id}/stop', {
        path: { id: threadId },
        body: {},
        idempotencyKey: newIdempotencyKey(),
      }),
    onError: (error) => toast.show({ text: `Could not stop: ${error.message}` }),
  });
  const end = useMutation({
    mutationFn: () =>
      client.post('/api/threads/{id}/end', {
        path: { id: threadId },
        body: { ...NO_RATING, source: 'web_end', modality: 'text' },
        idempotencyKey: newIdempotencyKey(),
      }),
    onSuccess: (done) => {
      // Another tab may have ended it first: the log says so, and the card comes from there.
      if (!done.finalized) toast.show({ text: sentence(done.detail ?? 'nothing was ended') });
    },
    onError: (error) => toast.show({ text: `Could not end it: ${error.message}` }),
  });
  return { stop, end };
}

interface HeaderProps {
  isIncognito: boolean;
  canEnd: boolean;
  isEnding: boolean;
  onEnd: () => void;
  /** Items of the menu. */
  items: ReactNode;
}

function ConversationHeader({ isIncognito: isSecret, canEnd, isEnding, onEnd, items }: HeaderProps) {
  const [isMenuOpen, setMenuOpen] = useState(false);
  useKey('actions', () => setMenuOpen(true));
  return (
    <ChatBar>
      {isSecret && (
        <span
          title="Kept in the server's memory alone. Fixed when the chat began."
          className="rounded-full border border-edge px-2 text-meta"
        >
          incognito
        </span>
      )}
      {(canEnd || isEnding) && (
        <Button isBusy={isEnding} onClick={onEnd}>
          {isEnding ? 'Ending…' : 'End'}
        </Button>
      )}
      <Menu
        isOpen={isMenuOpen}
        onOpenChange={setMenuOpen}
        trigger={
          <IconButton label="Actions of this chat" shortcut="actions">
            <MoreHorizontal size={16} aria-hidden="true" />
          </IconButton>
        }
      >
        {items}
      </Menu>
    </ChatBar>
  );
}

function EndHere({ onEnd }: { onEnd: () => void }) {
  return (
    <p className="flex items-center gap-2 text-row text-soft">
      End here?
      <Button kind="ghost" onClick={onEnd}>
        End
      </Button>
    </p>
  );
}

/** The refusal that says that the chat is not there, or no more. */
function goneRefusal(errors: readonly (Error | null | undefined)[]): Error | undefined {
  return errors.find((error) => isRefusal(error) && error.status === 404) ?? undefined;
}

/** The sitting whose end is shown as a card: one that a person ended, until they go on. */
function cardOf(ended: EndedSitting | undefined, continued: number | null, isSending: boolean) {
  if (ended === undefined || ended.reason !== 'asked' || ended.sequence === continued || isSending) return undefined;
  return ended;
}

export interface ConversationViewProps {
  threadId: string;
  session: Session;
  outbox: Outbox;
  outgoing: readonly OutgoingMessage[];
  drafts: Drafts;
  takesFocus: boolean;
  onNew: () => void;
}

export function ConversationView(props: ConversationViewProps) {
  const { threadId, session, outbox, outgoing, drafts, takesFocus, onNew } = props;
  const me = useMe();
  const speaker = useSpeaker();
  const log = useSessionEvents(threadId);
  const { refusal } = useSessionRealtime(threadId);
  const { events } = log;
  const chat = useMemo(() => readConversation(events, session.status), [events, session.status]);
  const { stop, end } = useTurnCalls(threadId);
  const actions = useChatActions(session, onNew);
  const composer = useRef<ComposerHandle>(null);
  /** The sitting after whose end the person chose to go on, and the text to go on with. */
  const [continued, setContinued] = useState<number | null>(null);

  useEffect(() => outbox.settle(threadId, events), [outbox, threadId, events]);

  const incognito = isIncognito(session);
  const status = chat.status ?? session.status;
  const isBusy = isBusyStatus(status);
  const isSending = outgoing.some((message) => message.state === 'sending');
  const card = cardOf(chat.ended, continued, outgoing.length > 0);
  const endNow = () => end.mutate();

  const send = (text: string, mode: BusyMode) =>
    outbox.send({
      threadId,
      text,
      key: newIdempotencyKey(),
      mode,
      opensChat: false,
      userId: userIdOf(me, speaker, incognito),
      isIncognito: incognito,
      afterSequence: events.at(-1)?.sequence ?? 0,
    });

  useNoteVisit(chatPath(threadId), chatTitle(session));

  const canEnd = chat.hasOpenSitting && !end.isPending;
  usePageActions([
    ...(canEnd ? [{ id: 'end-sitting', words: 'End this sitting', run: endNow }] : []),
    ...(isBusy ? [{ id: 'stop-reply', words: 'Stop the reply', run: () => stop.mutate() }] : []),
  ]);

  const gone = goneRefusal([refusal, log.error]);
  if (gone !== undefined) {
    return (
      <div className="mx-auto max-w-xl p-6">
        <ErrorState error={gone} action={<Button onClick={onNew}>New chat</Button>} />
      </div>
    );
  }

  return (
    <div className="flex h-full min-h-0 flex-col">
      <ConversationHeader
        isIncognito={incognito}
        canEnd={canEnd}
        isEnding={end.isPending}
        onEnd={endNow}
        items={actions.items}
      />
      {actions.dialogs}
      <ChatLog
        rows={chat.rows.filter((row) => row.key !== card?.sequence)}
        events={events}
        own={me.user?.id ?? null}
        asksPermission={chat.approvalId !== undefined}
        hasMore={log.hasMore}
        isLoadingMore={log.isFetchingNextPage}
        onLoadMore={() => void log.fetchNextPage()}
        draft={
          <>
            {chat.approvalId !== undefined && <Confirmation key={chat.approvalId} approvalId={chat.approvalId} />}
            <DraftReply threadId={threadId} isWriting={status === 'running' || (isSending && !isBusy)} />
          </>
        }
      >
        {log.isLoading && <Skeleton rows={4} />}
        {log.error !== null && <ErrorState error={log.error} onRetry={() => void log.refetch()} />}
        {chat.suggestsEnd && canEnd && <EndHere onEnd={endNow} />}
        {outgoing.map((message) => (
          <OutgoingBubble
            key={message.key}
            message={message}
            onRetry={() => outbox.retry(message.key)}
            onEdit={() => {
              setContinued(chat.ended?.sequence ?? null);
              composer.current?.add(outbox.remove(message.key) ?? '');
            }}
            onDiscard={() => outbox.remove(message.key)}
          />
        ))}
        {card !== undefined && (
          <EndCard
            key={card.sequence}
            threadId={threadId}
            ended={card}
            isIncognito={incognito}
            crisisText={chat.crisisText}
            takesFocus={end.isSuccess}
            onContinue={() => setContinued(card.sequence)}
            onNew={onNew}
          />
        )}
      </ChatLog>
      {card === undefined && (
        <div className="mx-auto w-full max-w-3xl px-4 pb-4">
          <Composer
            ref={composer}
            place={threadId}
            drafts={incognito ? null : drafts}
            isBusy={isBusy}
            isStopping={stop.isPending}
            onStop={() => stop.mutate()}
            onSend={send}
            takesFocus={takesFocus || continued !== null}
          />
        </div>
      )}
    </div>
  );
}
