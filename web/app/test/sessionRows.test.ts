import type { Session } from '@sederunt/react';
import { describe, expect, it } from 'vitest';
import { readParameters, writeParameters } from '../src/lib/urlParameters.js';
import {
  isFiltered,
  isSaved,
  listQuery,
  NO_FILTERS,
  SESSION_FILTERS,
  savedFilters,
} from '../src/pages/sessions/filters.js';
import { rowsOnce, withFresh, withHints, withOnTop } from '../src/pages/sessions/sessionRows.js';

function row(id: string, more: Partial<Session> = {}): Session {
  return {
    id,
    title: id,
    status: 'running',
    last_sequence: 3,
    version: 1,
    last_activity_at: '2026-11-18T09:00:00Z',
    ...more,
  } as Session;
}

const hint = (id: string, more = {}) => ({
  id,
  status: 'failed',
  last_sequence: 9,
  row_changed: true,
  deleted: false,
  ...more,
});

const ids = (rows: readonly Session[]) => rows.map((one) => one.id);

describe('the rows of the list of sessions', () => {
  it('take status and events of a hint in place, and keep what the hint does not concern', () => {
    const pages = [{ items: [row('a'), row('b')] }];
    const [page] = withHints(pages, [hint('b')]);
    expect(page?.items.map((one) => [one.id, one.status, one.last_sequence])).toEqual([
      ['a', 'running', 3],
      ['b', 'failed', 9],
    ]);
    expect(page?.items[0]).toBe(pages[0]?.items[0]);
    expect(withHints(pages, [hint('z')])).toBe(pages);
  });

  it('keep their status for one that this version does not know, and never lose events', () => {
    const [page] = withHints([{ items: [row('a')] }], [hint('a', { status: 'levitating', last_sequence: 1 })]);
    expect(page?.items[0]).toMatchObject({ status: 'running', last_sequence: 3 });
  });

  it('go when they are deleted', () => {
    const [page] = withHints([{ items: [row('a'), row('b')] }], [hint('a', { deleted: true })]);
    expect(ids(page?.items ?? [])).toEqual(['b']);
  });

  it('are read anew in place, and what is not there yet is told apart, newest first', () => {
    const fresh = [
      row('new1', { last_activity_at: '2026-11-18T10:00:00Z' }),
      row('b', { title: 'renamed', version: 2 }),
      row('new2', { last_activity_at: '2026-11-18T11:00:00Z' }),
    ];
    const { pages, unknown } = withFresh([{ items: [row('a'), row('b')] }], fresh);
    expect(pages[0]?.items.map((one) => one.title)).toEqual(['a', 'renamed']);
    expect(ids(unknown)).toEqual(['new2', 'new1']);
  });

  it('are not put back by an answer that is older than the row', () => {
    const { pages } = withFresh([{ items: [row('a', { version: 5 })] }], [row('a', { version: 4, title: 'old' })]);
    expect(pages[0]?.items[0]?.title).toBe('a');
  });

  it('stand once, also where a row moved between two pages or came on top', () => {
    const pages = [{ items: [row('a'), row('b')] }, { items: [row('b'), row('c')] }];
    expect(ids(rowsOnce(pages))).toEqual(['a', 'b', 'c']);
    expect(ids(rowsOnce(withOnTop(pages, [row('c'), row('n')])))).toEqual(['c', 'n', 'a', 'b']);
  });
});

describe('the filters of the list of sessions', () => {
  it('come back from the address as they were written', () => {
    const filters = {
      ...NO_FILTERS,
      q: 'invoice',
      status: ['running', 'failed'] as const,
      agent: 'a b',
      inactive: true,
    };
    expect(readParameters(SESSION_FILTERS, writeParameters(SESSION_FILTERS, filters))).toEqual({
      ...filters,
      status: ['running', 'failed'],
    });
  });

  it('are as if they were left out where the address holds nonsense', () => {
    const nonsense = '?q=%00&in=x&type=x&status=x,y&group=x&agent=%07&task=&kind=x&user=%1f&inactive=maybe&steps=2&z=1';
    expect(readParameters(SESSION_FILTERS, nonsense)).toEqual(NO_FILTERS);
    expect(isFiltered(readParameters(SESSION_FILTERS, nonsense))).toBe(false);
  });

  it('leave steps of a run out, unless they are asked for or words look for them', () => {
    expect(listQuery(NO_FILTERS)).toEqual({ parents_only: true });
    expect(listQuery({ ...NO_FILTERS, steps: true })).toEqual({});
    expect(listQuery({ ...NO_FILTERS, q: 'read' })).toEqual({ q: 'read' });
    expect(listQuery({ ...NO_FILTERS, type: 'agent', status: ['failed', 'expired'], inactive: true })).toEqual({
      session_type: 'agent',
      status: 'failed,expired',
      inactive: true,
      parents_only: true,
    });
  });

  it('offer “mine” only to people who have a name', () => {
    expect(savedFilters(undefined).map((saved) => saved.name)).toEqual(['failing']);
    const [mine] = savedFilters('ann');
    expect(mine?.filters).toEqual({ user: 'ann' });
    expect(mine !== undefined && isSaved(mine, { ...NO_FILTERS, user: 'ann' })).toBe(true);
    expect(mine !== undefined && isSaved(mine, { ...NO_FILTERS, user: 'ann', q: 'x' })).toBe(false);
  });
});
