/**
 * Messages on their way to the server. A message leaves the outbox when it is in the log: from then on the log shows it, and the
 * call that waits for the reply is let go, because the reply comes by the session's stream and a browser has few connections.
 */
import { type components, contentText, isRefusal, type SederuntClient, type SessionEvent } from '@sederunt/react';
import type { Drafts, UnsentMessage } from './drafts.js';

/** `unsent`: from before the page was loaded. */
export type OutgoingState = 'sending' | 'failed' | 'unsent';

export interface OutgoingMessage extends UnsentMessage {
  readonly state: OutgoingState;
  readonly error: Error | undefined;
  /** When the server asked to come back, as a time of this clock. */
  readonly retryAt: number | undefined;
}

type OpenedSession = components['schemas']['Session'];

/** Told when the server has opened a chat, and when it has answered a message. */
export interface OutboxListener {
  onOpened: (session: OpenedSession) => void;
  onAnswered: (threadId: string) => Promise<unknown>;
}

/** Opens the chat where it is new, and sends the message. */
async function deliver(client: SederuntClient, message: UnsentMessage, listener: OutboxListener, signal: AbortSignal) {
  const { threadId, text, key, mode, userId } = message;
  if (message.opensChat) {
    const body = { id: threadId, session_type: 'mixed' as const };
    const opened = await client.post('/api/sessions', {
      body: message.isIncognito ? { ...body, memory_mode: 'incognito' as const } : body,
      idempotencyKey: `${key}-open`,
      signal,
    });
    listener.onOpened(opened);
  }
  // Only `/api/chat` takes a user: a turn of its own that is sent another way would use another memory.
  const interruptsForUser = mode === 'interrupt' && userId !== undefined;
  if (interruptsForUser) {
    await client.post('/api/sessions/{id}/stop', {
      path: { id: threadId },
      body: {},
      idempotencyKey: `${key}-stop`,
      signal,
    });
  }
  if (mode === 'queue' || interruptsForUser) {
    const body = { message: text, thread_id: threadId };
    await client.post('/api/chat', {
      body: userId === undefined ? body : { ...body, user_id: userId },
      idempotencyKey: key,
      signal,
    });
    return;
  }
  await client.post('/api/sessions/{id}/messages', {
    path: { id: threadId },
    body: { text, on_busy: mode },
    idempotencyKey: key,
    signal,
  });
}

export class Outbox {
  #messages: readonly OutgoingMessage[];
  readonly #calls = new Map<string, AbortController>();
  /** The events that were found to be messages of this outbox: a text that is sent twice is two events. */
  readonly #taken = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #client: SederuntClient;
  readonly #drafts: Drafts;
  readonly #listener: OutboxListener;

  constructor(client: SederuntClient, drafts: Drafts, listener: OutboxListener) {
    this.#client = client;
    this.#drafts = drafts;
    this.#listener = listener;
    this.#messages = drafts
      .readUnsent()
      .map((message) => ({ ...message, state: 'unsent' as const, error: undefined, retryAt: undefined }));
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly messages = (): readonly OutgoingMessage[] => this.#messages;

  send(message: UnsentMessage): void {
    this.#keep([...this.#messages, { ...message, state: 'sending', error: undefined, retryAt: undefined }]);
    void this.#deliver(message);
  }

  /** Sends a message that failed once more, under the same key. */
  retry(key: string): void {
    const message = this.#messages.find((one) => one.key === key);
    if (message === undefined || message.state === 'sending') return;
    this.#change(key, { state: 'sending', error: undefined, retryAt: undefined });
    void this.#deliver(message);
  }

  /** Takes a message out, and returns its text. */
  remove(key: string): string | undefined {
    const message = this.#messages.find((one) => one.key === key);
    this.#calls.get(key)?.abort();
    this.#calls.delete(key);
    this.#keep(this.#messages.filter((one) => one.key !== key));
    return message?.text;
  }

  /** Takes out what is in the log by now. */
  settle(threadId: string, events: readonly SessionEvent[]): void {
    for (const message of this.#messages) {
      if (message.threadId !== threadId) continue;
      const found = events.find(
        (event) =>
          event.sequence > message.afterSequence &&
          event.type === 'user.message' &&
          !this.#taken.has(`${threadId}#${event.sequence}`) &&
          contentText(event.content) === message.text,
      );
      if (found === undefined) continue;
      this.#taken.add(`${threadId}#${found.sequence}`);
      this.remove(message.key);
    }
  }

  async #deliver(message: UnsentMessage): Promise<void> {
    const { key, threadId } = message;
    const call = new AbortController();
    this.#calls.set(key, call);
    try {
      await deliver(this.#client, message, this.#listener, call.signal);
      // Answered before the stream has shown it: the log is read first, so that the message is never gone from the screen.
      await this.#listener.onAnswered(threadId);
      if (!call.signal.aborted) this.remove(key);
    } catch (error) {
      if (call.signal.aborted) return;
      const wait = isRefusal(error) ? error.retryAfterMs : undefined;
      this.#change(key, {
        state: 'failed',
        error: error instanceof Error ? error : new Error(String(error)),
        retryAt: wait === undefined ? undefined : Date.now() + wait,
      });
    } finally {
      if (this.#calls.get(key) === call) this.#calls.delete(key);
    }
  }

  #change(key: string, change: Partial<OutgoingMessage>): void {
    this.#keep(this.#messages.map((one) => (one.key === key ? { ...one, ...change } : one)));
  }

  #keep(messages: readonly OutgoingMessage[]): void {
    this.#messages = messages;
    this.#drafts.writeUnsent(
      messages.map(({ state: _state, error: _error, retryAt: _retryAt, ...message }) => message),
    );
    for (const listener of this.#listeners) listener();
  }
}
