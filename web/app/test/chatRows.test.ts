import type { SessionEvent } from '@sederunt/react';
import { describe, expect, it } from 'vitest';
import { readConversation } from '../src/pages/chat/chatRows.js';
import { readCrisisAnswer } from '../src/pages/chat/crisisResources.js';
import { lastParagraphStart } from '../src/pages/chat/DraftReply.js';
import { newThreadId, threadOfPath } from '../src/pages/chat/threadId.js';

type Parts = Partial<Record<keyof SessionEvent, unknown>>;

function log(...parts: Parts[]): SessionEvent[] {
  return parts.map(
    (part, at) =>
      ({
        session_id: 's',
        sequence: at + 1,
        content: null,
        metadata: null,
        turn: null,
        author: null,
        at: '2026-01-31T09:30:00Z',
        role: 'system',
        ...part,
      }) as SessionEvent,
  );
}

const says = (text: string, turn: number): Parts => ({ type: 'user.message', turn, content: [{ type: 'text', text }] });
const replies = (text: string, turn: number, metadata: unknown = null): Parts => ({
  type: 'agent.message',
  turn,
  content: [{ type: 'text', text }],
  metadata,
});
const becomes = (to: string, turn: number): Parts => ({ type: 'session.status_change', turn, metadata: { to } });
const ended = (metadata: unknown): Parts => ({ type: 'session.sitting_ended', metadata });
const STARTED: Parts = { type: 'session.sitting_started', metadata: { sitting: 1 } };

function shape(events: SessionEvent[], status?: string): string[] {
  return readConversation(events, status).rows.map((row) =>
    row.kind === 'said' ? `${row.by}#${row.key}${row.isWaiting ? ' waits' : ''}` : `${row.kind}#${row.key}`,
  );
}

describe('the rows of a conversation', () => {
  it('put a message that waited where its own turn began, and one that still waits last', () => {
    const begun = [says('one', 1), becomes('running', 1), says('two', 3), says('three', 4)];
    expect(shape(log(...begun))).toEqual(['person#1', 'person#3 waits', 'person#4 waits']);
    const later = [
      ...begun,
      replies('r1', 1),
      { type: 'session.turn', turn: 1 },
      becomes('idle', 1),
      becomes('running', 3),
    ];
    expect(shape(log(...later))).toEqual(['person#1', 'agent#5', 'person#3', 'person#4 waits']);
  });

  it('do not let a message wait that was handed to the running turn', () => {
    const events = log(
      says('one', 1),
      becomes('running', 1),
      says('steers', 3),
      { type: 'session.turn', turn: 1, metadata: { outcome: 'answered', took: [3] } },
      becomes('running', 9),
    );
    expect(shape(events)).toEqual(['person#1', 'person#3']);
  });

  it('put a result beside its call, and show one without a call by itself', () => {
    const call = { type: 'agent.tool_call', metadata: { tool_call_id: 'a', tool_name: 'send' } };
    const result = (id: string) => ({ type: 'agent.tool_result', metadata: { tool_call_id: id } });
    const { rows } = readConversation(log(call, result('a'), result('b')));
    expect(rows.map((row) => [row.key, row.kind === 'call' && row.result?.sequence])).toEqual([
      [1, 2],
      [3, 3],
    ]);
  });

  it('say that a turn was stopped only where nothing was said', () => {
    const stop = (turn: number): Parts => ({ type: 'session.turn', turn, metadata: { outcome: 'stopped' } });
    expect(shape(log(says('a', 1), stop(1)))).toEqual(['person#1', 'stopped#2']);
    expect(shape(log(says('a', 1), replies('half', 1, { interrupted: true }), stop(1)))).toEqual([
      'person#1',
      'agent#2',
    ]);
  });

  it('show types that were never seen by their names, and leave out what is no talk', () => {
    const events = log(
      { type: 'billing.charged' },
      { type: 'session.novel' },
      { type: 'state.patch' },
      { type: 'agent.novel' },
    );
    expect(shape(events)).toEqual(['other#1', 'other#4']);
  });

  it.each([
    ['metadata that is a text', { type: 'session.turn', turn: 1, metadata: 'x' }],
    ['a state that is a list', { type: 'session.turn', turn: 1, metadata: { state: [], took: 'x' } }],
    ['an end without anything', ended(null)],
    ['open points that are no texts', ended({ state: { session_memory: { open_loops: [1, null, {}], summary: 7 } } })],
    ['content that is no list', { type: 'agent.message', content: 5 }],
  ])('are read from %s without failing', (_, part) => {
    expect(() => readConversation(log(says('a', 1), part))).not.toThrow();
  });
});

describe('the sitting of a conversation', () => {
  const end = ended({
    reason: 'asked',
    turn_count: 2,
    state: { session_memory: { summary: 'Desks.', open_loops: ['keys', ' '] } },
  });

  it('has its summary and open points from the log, so that another tab shows the same', () => {
    const chat = readConversation(log(STARTED, says('a', 2), replies('b', 2), end));
    expect(chat.hasOpenSitting).toBe(false);
    expect(chat.ended).toMatchObject({ reason: 'asked', turnCount: 2, summary: 'Desks.', openLoops: ['keys'] });
  });

  it('is open again with the next message', () => {
    const chat = readConversation(log(STARTED, says('a', 2), end, STARTED, says('b', 5)));
    expect([chat.hasOpenSitting, chat.ended]).toEqual([true, undefined]);
  });

  it('suggests its end after the last reply alone, and not while another is being written', () => {
    const bye = replies('Take care.', 2, { session_action: 'suggest_end_session' });
    const events = [STARTED, says('bye', 2), becomes('running', 2), bye];
    expect(readConversation(log(...events)).suggestsEnd).toBe(false);
    expect(readConversation(log(...events, becomes('idle', 2))).suggestsEnd).toBe(true);
    expect(readConversation(log(...events, becomes('idle', 2), says('wait', 6))).suggestsEnd).toBe(false);
    expect(readConversation(log(...events, becomes('idle', 2), end)).suggestsEnd).toBe(false);
  });

  it('knows the answer to words of distress until the next sitting', () => {
    const crisis: Parts = { type: 'session.turn', turn: 2, metadata: { state: { crisis: { level: 3 } } } };
    const first = [STARTED, says('a', 2), replies('Call', 2), crisis, end];
    expect(readConversation(log(...first)).crisisText).toBe('Call');
    expect(readConversation(log(...first, STARTED, says('b', 7))).crisisText).toBeUndefined();
  });

  it('asks for the decision that the session waits for, and for none that is past', () => {
    const asks = { type: 'session.waiting_approval', metadata: { approval_id: 'ap1' } };
    expect(readConversation(log(becomes('awaiting_tool', 1), asks)).approvalId).toBe('ap1');
    expect(readConversation(log(becomes('awaiting_tool', 1), asks, becomes('running', 1))).approvalId).toBeUndefined();
  });
});

describe('a crisis answer', () => {
  it('gives its places as links to call or open, and its words apart', () => {
    const { places, words } = readCrisisAnswer(
      'I hear you.\n\n- Samaritans: 116 123\n- 988: 988 (call or text)\n- Find: https://a.example\n\nStay.',
    );
    expect(places.map((place) => place.href)).toEqual(['tel:116123', 'tel:988', 'https://a.example']);
    expect(words).toBe('I hear you.\n\nStay.');
  });

  it('makes no link of anything else', () => {
    const { places } = readCrisisAnswer('- A: javascript:alert(1)\n- B: http://plain.example\n- C: ask a friend');
    expect(places.map((place) => place.href)).toEqual([null, null, null]);
  });
});

describe('an unfinished reply', () => {
  it('is formatted up to its last paragraph, and never cut inside of a code block', () => {
    expect(lastParagraphStart('one')).toBe(0);
    expect(lastParagraphStart('one\n\ntwo')).toBe(5);
    expect(lastParagraphStart('one\n\n```\na\n\nb')).toBe('one\n'.length);
    expect(lastParagraphStart('```\na\n\nb\n```\n\nend')).toBe('```\na\n\nb\n```\n\n'.length);
  });
});

describe('the address of a chat', () => {
  it.each([
    ['/chat', null],
    ['/chat/', null],
    ['/chat/web-abcd1234', 'web-abcd1234'],
    ['/chat/demo%3Apicnic', 'demo:picnic'],
    ['/chat/a/b', undefined],
    ['/chat/%E0%A4%A', undefined],
    [`/chat/${'x'.repeat(201)}`, undefined],
  ])('%s', (path, thread) => {
    expect(threadOfPath(path)).toBe(thread);
  });

  it('of a new one is web- and eight letters of base 36', () => {
    const ids = new Set(Array.from({ length: 200 }, newThreadId));
    expect(ids.size).toBe(200);
    for (const id of ids) expect(id).toMatch(/^web-[0-9a-z]{8}$/);
  });
});
