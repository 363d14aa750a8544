import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { firstSentence } from '../src/vocabulary/announcement.js';
import { contentText, isSessionEvent, saidText } from '../src/vocabulary/content.js';
import { extractEntityRefFromPath } from '../src/vocabulary/entityPath.js';
import {
  isHumanEventType,
  isKnownEventType,
  isValidEventType,
  SESSION_EVENT_TYPES,
} from '../src/vocabulary/eventTypes.js';
import { entitySessionsQueryKey, sessionEventsQueryKey } from '../src/vocabulary/queryKeys.js';
import { isValidSessionStatus, SESSION_STATUSES, statusSign } from '../src/vocabulary/status.js';
import {
  BLOCK_STATUSES,
  buildTaskStatusMap,
  EMPTY_TASK_STATUS_MAP,
  sessionStatusToBlockStatus,
} from '../src/vocabulary/taskStatusMap.js';
import { agoText, durationText } from '../src/vocabulary/time.js';

const root = resolve(import.meta.dirname, '../../../..');
const UUID = '019a9b3e-0000-7000-8000-00000000000a';

describe('the words of the server', () => {
  it('has the event types that the server knows, in its order', () => {
    const source = readFileSync(resolve(root, 'crates/core/src/event/kind.rs'), 'utf8');
    const known = /pub const KNOWN: &\[&str\] = &\[([^\]]*)\]/.exec(source)?.[1] ?? '';
    expect(SESSION_EVENT_TYPES).toEqual([...known.matchAll(/"([^"]+)"/g)].map(([, name]) => name));
  });

  it('has the statuses and block statuses of the description of the API', () => {
    const { schemas } = JSON.parse(readFileSync(resolve(root, 'api/openapi.json'), 'utf8')).components;
    expect(SESSION_STATUSES).toEqual(schemas.Status.enum);
    expect([...BLOCK_STATUSES].sort()).toEqual([...schemas.BlockStatus.enum].sort());
  });

  it.each([
    ['user.message', true, true, false],
    ['human.marker', true, true, true],
    ['human.keypress', false, false, false],
    ['billing.charged', true, false, false],
    ['billing.charged.twice', true, false, false],
    ['session.invented', false, false, false],
    ['nodots', false, false, false],
    ['Billing.charged', false, false, false],
    ['billing.', false, false, false],
    [`a.${'b'.repeat(198)}`, true, false, false],
    [`a.${'b'.repeat(199)}`, false, false, false],
    ['', false, false, false],
  ])('judges the type %s', (type, isValid, isKnown, isHuman) => {
    expect([isValidEventType(type), isKnownEventType(type), isHumanEventType(type)]).toEqual([
      isValid,
      isKnown,
      isHuman,
    ]);
  });

  it('tells a status that it does not know by its name', () => {
    expect(isValidSessionStatus('running')).toBe(true);
    expect(isValidSessionStatus('toString')).toBe(false);
    expect(statusSign('being_born')).toEqual({ glyph: '?', word: 'being born' });
  });
});

describe('the task status map', () => {
  it.each([
    ['draft', 'pending'],
    ['pending', 'pending'],
    ['running', 'in-progress'],
    ['idle', 'in-progress'],
    ['waiting_human', 'waiting-human'],
    ['awaiting_tool', 'waiting-human'],
    ['completed', 'complete'],
    ['failed', 'failed'],
    ['expired', 'failed'],
    ['abandoned', 'failed'],
  ] as const)('folds %s into %s', (status, block) => {
    expect(sessionStatusToBlockStatus(status)).toBe(block);
  });

  it('lets the newest session that touches a field decide it', () => {
    const sessions = [
      { id: 'new', status: 'running', block_id: 'b' },
      { id: 'odd', status: 'being_born', block_id: 'b' },
      { id: 'old', status: 'failed', block_id: 'b' },
    ];
    const map = buildTaskStatusMap(
      sessions,
      new Map([
        ['new', ['a']],
        ['odd', ['c']],
        ['old', ['a', 'b']],
      ]),
    );
    expect([...map.byFieldName]).toEqual([
      ['a', 'in-progress'],
      ['b', 'failed'],
    ]);
    expect([...map.byBlockId]).toEqual([['b', 'in-progress']]);
    expect(buildTaskStatusMap([])).toBe(EMPTY_TASK_STATUS_MAP);
  });
});

describe('the entity of a path', () => {
  it.each([
    [`/entities/${UUID}`, { entityId: UUID, entityType: 'entity' }],
    [`/entities/${UUID.toUpperCase()}/?tab=runs#top`, { entityId: UUID, entityType: 'entity' }],
    [`/t/acme/companies/${UUID}`, { entityId: UUID, entityType: 'companies' }],
    [`/t/acme/gro%C3%9Fe/${UUID}`, { entityId: UUID, entityType: 'große' }],
    [`/t/acme/%E0%A4%A/${UUID}`, null],
    ['/entities/acme-corp', null],
    ['/admin/tools', null],
    [`/entities/${UUID}/edit`, null],
    [`/t/acme/${UUID}`, null],
    [`/x/entities/${UUID}`, null],
    [`/entities/${UUID}0`, null],
    ['', null],
  ])('of %s', (path, ref) => {
    expect(extractEntityRefFromPath(path)).toEqual(ref);
  });
});

describe('query keys', () => {
  it('have one prefix for everything about a session or an entity', () => {
    expect(sessionEventsQueryKey('s')).toEqual(['sessions', 's', 'events']);
    expect(entitySessionsQueryKey('e')).toEqual(['entities', 'e', 'sessions']);
    expect(entitySessionsQueryKey('e', { includeChildren: true, limit: 5 })).toEqual([
      'entities',
      'e',
      'sessions',
      { includeChildren: true, limit: 5 },
    ]);
  });
});

describe('content of any shape', () => {
  const deep = JSON.parse(`${'[{"a":'.repeat(32)}1${'}]'.repeat(32)}`);
  it.each([
    [
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
      'a\nb',
    ],
    ['plain', 'plain'],
    [null, ''],
    [undefined, ''],
    [{ type: 'text', text: 'no array' }, 'no array'],
    [[{ type: 'text' }], ''],
    [[{ type: 'text', text: 7 }], ''],
    [[null, 'a', 3], 'a\n3'],
    [[{ type: 'file', name: 'a.pdf' }], '[file: a.pdf]'],
    [[{ type: 'mystery', x: 1 }], '{\n  "x": 1\n}'.replace('{', '{\n  "type": "mystery",')],
    [17, '17'],
  ])('reads %j', (content, text) => {
    expect(contentText(content)).toBe(text);
  });

  it('reads JSON that is nested 64 deep', () => {
    expect(contentText(deep)).toContain('"a"');
  });

  it.each([
    [{ sequence: 1, type: 'a.b' }, true],
    [{ sequence: 0, type: 'a.b' }, false],
    [{ sequence: 1.5, type: 'a.b' }, false],
    [{ sequence: '1', type: 'a.b' }, false],
    [{ sequence: 1 }, false],
    [null, false],
    [[], false],
  ])('takes %j as an event: %s', (value, is) => {
    expect(isSessionEvent(value)).toBe(is);
  });
});

describe('a reply without the markers of silence', () => {
  const reply = (text: string, type = 'agent.message') => saidText({ type, content: [{ type: 'text', text }] });

  it.each([
    ['<NO_REPLY>', ''],
    [' <EMPTY_RESPONSE>\n', ''],
    ['Here you are. <NO_REPLY>', 'Here you are. '],
    ['<NO_<NO_REPLY>REPLY>', ''],
    ['<no_reply>', '<no_reply>'],
    ['a < b > c', 'a < b > c'],
  ])('%j is shown as %j', (text, shown) => expect(reply(text)).toBe(shown));

  it('leaves what people say as it is', () => {
    expect(reply('What does <NO_REPLY> mean?', 'user.message')).toBe('What does <NO_REPLY> mean?');
  });

  it('takes a time that grows with the length of the text alone', () => {
    const began = performance.now();
    expect(reply(`${'<NO_'.repeat(20_000)}<NO_REPLY>${'REPLY>'.repeat(20_000)}`)).toBe('');
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

describe('the sentence that is read out', () => {
  it.each([
    ['', ''],
    ['Rain.', 'Rain.'],
    ['Rain until\nfive. Then sun.', 'Rain until five.'],
    ['1. Order the desks. 2. Then the chairs.', '1. Order the desks.'],
    ['It costs 3.50 now! Hurry.', 'It costs 3.50 now!'],
    ['机を注文した。次は椅子。', '机を注文した。'],
    ['no end', 'no end'],
    [`${'word '.repeat(60)}`, `${'word '.repeat(39)}word…`],
    [`${'a'.repeat(198)}🎉${'b'.repeat(9)}`, `${'a'.repeat(198)}…`],
  ])('of %j is %j', (text, sentence) => {
    expect(firstSentence(text)).toBe(sentence);
  });

  it('of a megabyte on one line costs no time', () => {
    const begun = performance.now();
    expect(firstSentence('x'.repeat(1_000_000))).toHaveLength(200);
    expect(performance.now() - begun).toBeLessThan(20);
  });
});

describe('times in words', () => {
  it.each([
    [0, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [12 * 60_000, '12 min'],
    [2 * 3_600_000 + 5 * 60_000, '2 h 5 min'],
    [3 * 86_400_000, '3 d'],
    [-86_400_000, '0 s'],
    [Number.NaN, '0 s'],
  ])('%d ms are %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });

  it('says now where the clock is a day behind', () => {
    expect(agoText('2026-01-02T00:00:00Z', Date.parse('2026-01-01T00:00:00Z'))).toBe('now');
    expect(agoText('2026-01-01T00:00:00Z', Date.parse('2026-01-01T02:00:00Z'))).toBe('2 h ago');
    expect(agoText('no time', 0)).toBe('now');
  });
});
