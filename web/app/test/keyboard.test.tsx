import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fireEvent, render, screen } from '@testing-library/react';
import { describe, expect, it, vi } from 'vitest';
import { KeyboardProvider, useKey, useKeys } from '../src/keyboard/KeyboardProvider.js';
import { KEYMAP } from '../src/keyboard/keymap.js';
import { letterKeys } from '../src/keyboard/letterKeys.js';
import { bindingsFor, keyText, type Press } from '../src/keyboard/press.js';
import { useListCursor } from '../src/keyboard/useListCursor.js';

const SOURCES = join(import.meta.dirname, '../src');

interface Case {
  keys: string;
  press: Partial<Press>;
  on?: string;
  isMac?: boolean;
  prefix?: string;
  letters?: boolean;
  means: string[];
}

const PLAIN: Press = { key: '', metaKey: false, ctrlKey: false, shiftKey: false, altKey: false };
const TYPING = ['<input>', '<textarea></textarea>', '<select></select>', '<div contenteditable="true"></div>'];

function element(html: string): Element {
  const holder = document.createElement('div');
  holder.innerHTML = html;
  return holder.querySelector('[data-at]') ?? holder.firstElementChild ?? holder;
}

function meaning({ press, on = '<main></main>', isMac = false, prefix, letters = true }: Case): string[] {
  const place = { target: element(on), isMac, prefix: prefix ?? null, lettersAreOn: letters };
  return bindingsFor({ ...PLAIN, ...press }, place).found.map((binding) => binding.id);
}

const EVERYWHERE: Case[] = [
  { keys: 'Ctrl K', press: { key: 'k', ctrlKey: true }, means: ['palette'] },
  { keys: '⌘K on a Mac', press: { key: 'k', metaKey: true }, isMac: true, means: ['palette'] },
  { keys: '⌘K elsewhere', press: { key: 'k', metaKey: true }, means: [] },
  { keys: 'Ctrl K on a Mac', press: { key: 'k', ctrlKey: true }, isMac: true, means: [] },
  { keys: 'Ctrl Shift K', press: { key: 'K', ctrlKey: true, shiftKey: true }, means: [] },
  { keys: 'Ctrl Alt K', press: { key: 'k', ctrlKey: true, altKey: true }, means: [] },
  { keys: 'Ctrl K with caps lock', press: { key: 'K', ctrlKey: true }, means: ['palette'] },
  { keys: '?', press: { key: '?', shiftKey: true }, means: ['shortcuts'] },
  { keys: '/', press: { key: '/' }, means: ['search'] },
  { keys: 'j', press: { key: 'j' }, means: ['next'] },
  { keys: 'k', press: { key: 'k' }, means: ['previous'] },
  { keys: 'Enter', press: { key: 'Enter' }, means: ['open'] },
  { keys: 'Ctrl Enter', press: { key: 'Enter', ctrlKey: true }, means: ['send'] },
  { keys: 'a', press: { key: 'a' }, means: ['approve'] },
  { keys: 'Ctrl A', press: { key: 'a', ctrlKey: true }, means: [] },
  { keys: 'Alt A', press: { key: 'a', altKey: true }, means: [] },
  { keys: 'e', press: { key: 'e' }, means: ['edit'] },
  { keys: 'r', press: { key: 'r' }, means: ['reject'] },
  { keys: 'Ctrl R, which reloads', press: { key: 'r', ctrlKey: true }, means: [] },
  { keys: 'x', press: { key: 'x' }, means: ['select'] },
  { keys: 'c', press: { key: 'c' }, means: ['new-chat'] },
  { keys: 'Ctrl C, which copies', press: { key: 'c', ctrlKey: true }, means: [] },
  { keys: 'n', press: { key: 'n' }, means: ['thumb-down'] },
  { keys: 't', press: { key: 't' }, means: ['trigger'] },
  { keys: '.', press: { key: '.' }, means: ['actions'] },
  { keys: 'l', press: { key: 'l' }, means: ['follow'] },
  { keys: 'G', press: { key: 'G', shiftKey: true }, means: ['newest'] },
  { keys: 'End', press: { key: 'End' }, means: ['newest'] },
  { keys: 'Home', press: { key: 'Home' }, means: ['oldest'] },
  { keys: '[', press: { key: '[' }, means: ['sidebar'] },
  { keys: ']', press: { key: ']' }, means: ['panel'] },
  {
    keys: '[ typed with AltGr',
    press: { key: '[', ctrlKey: true, altKey: true, getModifierState: (name) => name === 'AltGraph' },
    means: ['sidebar'],
  },
  { keys: 'j on a Cyrillic keyboard', press: { key: 'о', code: 'KeyJ' }, means: ['next'] },
  { keys: 'Ctrl M, which is the package’s', press: { key: 'm', ctrlKey: true }, means: [] },
  { keys: 'j while a word is composed', press: { key: 'j', isComposing: true }, means: [] },
  { keys: 'j that another handler took', press: { key: 'j', defaultPrevented: true }, means: [] },
  { keys: 'Enter on a button', press: { key: 'Enter' }, on: '<button></button>', means: [] },
  { keys: 'Enter on a link', press: { key: 'Enter' }, on: '<a href="/x"></a>', means: [] },
  { keys: 'j on a button', press: { key: 'j' }, on: '<button></button>', means: ['next'] },
  { keys: 'a in a dialog', press: { key: 'a' }, on: '<div role="dialog"><b data-at></b></div>', means: [] },
  {
    keys: 'Esc in a dialog',
    press: { key: 'Escape' },
    on: '<div role="dialog"><b data-at></b></div>',
    means: ['leave'],
  },
  { keys: 'a in a menu', press: { key: 'a' }, on: '<div role="menu"><b data-at></b></div>', means: [] },
  { keys: 'g t', press: { key: 't' }, prefix: 'g', means: ['go-today'] },
  { keys: 'g i', press: { key: 'i' }, prefix: 'g', means: ['go-inbox'] },
  { keys: 'g s', press: { key: 's' }, prefix: 'g', means: ['go-sessions'] },
  { keys: 'g c', press: { key: 'c' }, prefix: 'g', means: ['go-chat'] },
  { keys: 'g j, which is no sequence', press: { key: 'j' }, prefix: 'g', means: ['next'] },
  { keys: 'j with letters off', press: { key: 'j' }, letters: false, means: [] },
  { keys: 'g t with letters off', press: { key: 't' }, prefix: 'g', letters: false, means: [] },
  { keys: '? with letters off', press: { key: '?' }, letters: false, means: [] },
  { keys: 'Enter with letters off', press: { key: 'Enter' }, letters: false, means: ['open'] },
  { keys: 'Ctrl K with letters off', press: { key: 'k', ctrlKey: true }, letters: false, means: ['palette'] },
];

describe('the keyboard map', () => {
  it.each(EVERYWHERE)('reads $keys as $means', (one) => {
    expect(meaning(one)).toEqual(one.means);
  });

  it.each(TYPING)('leaves keys to a person who types in %s', (on) => {
    for (const key of ['j', '?', '/', 'G', 'Enter', 'Home', '[', '.'])
      expect(meaning({ keys: key, press: { key }, on, means: [] })).toEqual([]);
    expect(meaning({ keys: '', press: { key: 'k', ctrlKey: true }, on, means: [] })).toEqual(['palette']);
    expect(meaning({ keys: '', press: { key: 'Enter', ctrlKey: true }, on, means: [] })).toEqual(['send']);
    expect(meaning({ keys: '', press: { key: 'Escape' }, on, means: [] })).toEqual(['leave']);
  });

  it('begins a sequence with g, and not while a person types', () => {
    const begins = (on: string) =>
      bindingsFor({ ...PLAIN, key: 'g' }, { target: element(on), isMac: false, prefix: null, lettersAreOn: true })
        .prefix;
    expect(begins('<main></main>')).toBe('g');
    expect(begins('<input>')).toBeNull();
  });

  it('names each key once for each place', () => {
    const named = KEYMAP.flatMap((binding) => binding.keys.map((keys) => `${binding.place}: ${keys}`));
    expect(new Set(named).size).toBe(named.length);
    expect(new Set(KEYMAP.map((binding) => binding.id)).size).toBe(KEYMAP.length);
  });

  it('has no key that nothing does', () => {
    const source = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.tsx?$/.test(path) && !path.endsWith('keymap.ts'))
      .map((path) => readFileSync(join(SOURCES, path), 'utf8'))
      .join('\n');
    // As `useKey('search', …)`, `shortcut: 'open'` or `useKeys({ next: …`.
    const handled = (id: string) => new RegExp(`(shortcut: |useKey\\()'${id}'|[\\s{]'?${id}'?:`).test(source);
    const idle = KEYMAP.filter(({ id, isElsewhere }) => isElsewhere !== true && !id.startsWith('go-') && !handled(id));
    expect(idle.map(({ id }) => id)).toEqual([]);
  });

  it('writes keys as they stand on the keyboard', () => {
    expect(keyText('mod+k', true)).toBe('⌘K');
    expect(keyText('mod+k', false)).toBe('Ctrl K');
    expect(keyText('mod+Enter', true)).toBe('⌘↵');
    expect(keyText('g t', true)).toBe('g t');
  });
});

function Keyed({ run }: { run: Record<string, () => unknown> }) {
  useKeys(run);
  return <input aria-label="Words" />;
}

function Inner({ approve }: { approve: () => unknown }) {
  useKey('approve', approve);
  return null;
}

describe('the dispatcher', () => {
  it('goes by two keys one after the other, and forgets the first after a while', () => {
    vi.useFakeTimers();
    const go = vi.fn();
    const trigger = vi.fn();
    render(<Keyed run={{ 'go-today': go, trigger }} />, { wrapper: KeyboardProvider });
    fireEvent.keyDown(document.body, { key: 'g' });
    fireEvent.keyDown(document.body, { key: 't' });
    expect(go).toHaveBeenCalledTimes(1);
    expect(trigger).not.toHaveBeenCalled();
    fireEvent.keyDown(document.body, { key: 'g' });
    vi.advanceTimersByTime(1_500);
    fireEvent.keyDown(document.body, { key: 't' });
    expect(go).toHaveBeenCalledTimes(1);
    expect(trigger).toHaveBeenCalledTimes(1);
    vi.useRealTimers();
  });

  it('asks the newest handler first, and the one before it where that did nothing', () => {
    const outer = vi.fn();
    const inner = vi.fn<() => unknown>(() => false);
    render(
      <>
        <Keyed run={{ approve: outer }} />
        <Inner approve={inner} />
      </>,
      { wrapper: KeyboardProvider },
    );
    expect(fireEvent.keyDown(document.body, { key: 'a' })).toBe(false);
    expect(inner).toHaveBeenCalledTimes(1);
    expect(outer).toHaveBeenCalledTimes(1);
    inner.mockReturnValue(undefined);
    fireEvent.keyDown(document.body, { key: 'a' });
    expect(inner).toHaveBeenCalledTimes(2);
    expect(outer).toHaveBeenCalledTimes(1);
  });

  it('leaves a key to the browser where no component handles it', () => {
    render(<Keyed run={{}} />, { wrapper: KeyboardProvider });
    expect(fireEvent.keyDown(document.body, { key: 'End' })).toBe(true);
  });

  it('does nothing while a person types, or with letters switched off', () => {
    const approve = vi.fn();
    render(<Keyed run={{ approve }} />, { wrapper: KeyboardProvider });
    fireEvent.keyDown(screen.getByLabelText('Words'), { key: 'a' });
    letterKeys.set('off');
    fireEvent.keyDown(document.body, { key: 'a' });
    expect(approve).not.toHaveBeenCalled();
    expect(localStorage.getItem('sederunt:letter-keys')).toBe('off');
    letterKeys.set('on');
    fireEvent.keyDown(document.body, { key: 'a' });
    expect(approve).toHaveBeenCalledTimes(1);
  });
});

function Rows({ ids, open }: { ids: string[]; open: (id: string) => void }) {
  const cursor = useListCursor(ids, open);
  return ids.map((id) => (
    <a key={id} href={`/${id}`} {...cursor.rowProps(id)}>
      {id}
    </a>
  ));
}

describe('the cursor of a list', () => {
  it('moves by j and k to the ends and no further, and the row has the focus', () => {
    const { rerender } = render(<Rows ids={['a', 'b']} open={() => undefined} />, { wrapper: KeyboardProvider });
    const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });
    for (const [key, row] of [
      ['j', 'a'],
      ['j', 'b'],
      ['j', 'b'],
      ['k', 'a'],
      ['k', 'a'],
    ] as const) {
      press(key);
      expect(document.activeElement?.textContent).toBe(row);
    }
    rerender(<Rows ids={['new', 'a', 'b']} open={() => undefined} />);
    press('k');
    expect(document.activeElement?.textContent).toBe('new');
  });
});
