import type { SederuntClient, SessionEvent } from '@sederunt/react';
import { expect, it, vi } from 'vitest';
import { draftsOf, type UnsentMessage } from '../src/pages/chat/drafts.js';
import { Outbox } from '../src/pages/chat/outbox.js';

function message(key: string, more: Partial<UnsentMessage> = {}): UnsentMessage {
  return {
    threadId: 't',
    text: 'hello',
    key,
    mode: 'queue',
    opensChat: false,
    userId: undefined,
    isIncognito: false,
    afterSequence: 0,
    ...more,
  };
}

function said(sequence: number, text = 'hello'): SessionEvent {
  return { sequence, type: 'user.message', content: [{ type: 'text', text }] } as unknown as SessionEvent;
}

/** An outbox whose calls are never answered. */
function waitingOutbox() {
  const signals: (AbortSignal | undefined)[] = [];
  const post = vi.fn((_path: string, call: { signal?: AbortSignal }) => {
    signals.push(call.signal);
    return new Promise(() => undefined);
  });
  const client = { post } as unknown as SederuntClient;
  const outbox = new Outbox(client, draftsOf('default/ann'), {
    onOpened: () => undefined,
    onAnswered: () => Promise.resolve(),
  });
  return { outbox, signals };
}

it('lets the call for the reply go when the log has the message', () => {
  const { outbox, signals } = waitingOutbox();
  outbox.send(message('k1'));
  expect(signals[0]?.aborted).toBe(false);
  outbox.settle('t', [said(1)]);
  expect(signals[0]?.aborted).toBe(true);
  expect(outbox.messages()).toEqual([]);
});

it('finds the same text that was sent twice as two events', () => {
  const { outbox } = waitingOutbox();
  outbox.send(message('k1'));
  outbox.send(message('k2'));
  outbox.settle('t', [said(1)]);
  expect(outbox.messages().map((one) => one.key)).toEqual(['k2']);
  outbox.settle('t', [said(1)]);
  expect(outbox.messages().map((one) => one.key)).toEqual(['k2']);
  outbox.settle('t', [said(1), said(2)]);
  expect(outbox.messages()).toEqual([]);
});

it('does not take an older message, one of another chat, or other words for its own', () => {
  const { outbox } = waitingOutbox();
  outbox.send(message('k1', { afterSequence: 5 }));
  outbox.settle('t', [said(4), said(5), said(6, 'hello there')]);
  outbox.settle('u', [said(7)]);
  expect(outbox.messages()).toHaveLength(1);
});

it('stores what is unsent by person, and nothing of an incognito chat', () => {
  const { outbox } = waitingOutbox();
  outbox.send(message('k1'));
  outbox.send(message('k2', { isIncognito: true, text: 'secret' }));
  expect(
    draftsOf('default/ann')
      .readUnsent()
      .map((one) => one.key),
  ).toEqual(['k1']);
  expect(draftsOf('default/ben').readUnsent()).toEqual([]);
  expect(JSON.stringify({ ...sessionStorage })).not.toContain('secret');
});

it.each(['{', '5', '[null, 1, {}]', '[{"threadId":"t","text":"x","key":"k","mode":"jump"}]'])(
  'begins empty where the storage holds %s',
  (stored) => {
    sessionStorage.setItem('sederunt:chat:default/ann:unsent', stored);
    expect(waitingOutbox().outbox.messages()).toEqual([]);
  },
);
