import { describe, expect, it } from 'vitest';
import { isMacPlatform, isMarkerShortcut, type KeyPress } from '../src/vocabulary/shortcut.js';

const ctrl = { key: 'm', code: 'KeyM', ctrlKey: true, metaKey: false, shiftKey: false, altKey: false };
const cmd = { ...ctrl, ctrlKey: false, metaKey: true };

function place(html: string): Element {
  document.body.innerHTML = html;
  return document.querySelector('#here') ?? document.body;
}

describe('the key of the marker', () => {
  const table: [string, KeyPress, { isMac?: boolean; isActive?: boolean; html?: string }, boolean][] = [
    ['Ctrl+M elsewhere', ctrl, {}, true],
    ['Cmd+M on a Mac', cmd, { isMac: true }, true],
    ['Ctrl+M with caps lock', { ...ctrl, key: 'M' }, {}, true],
    ['Ctrl+M on a Cyrillic keyboard', { ...ctrl, key: 'ь' }, {}, true],
    ['Ctrl+M on a Mac', ctrl, { isMac: true }, false],
    ['Cmd+M elsewhere', cmd, {}, false],
    ['both', { ...ctrl, metaKey: true }, {}, false],
    ['both on a Mac', { ...ctrl, metaKey: true }, { isMac: true }, false],
    ['with Shift', { ...ctrl, shiftKey: true }, {}, false],
    ['with Alt', { ...ctrl, altKey: true }, {}, false],
    ['with Shift on a Mac', { ...cmd, shiftKey: true }, { isMac: true }, false],
    ['with Alt on a Mac', { ...cmd, altKey: true }, { isMac: true }, false],
    ['M alone', { ...ctrl, ctrlKey: false }, {}, false],
    ['another letter', { ...ctrl, key: 'n', code: 'KeyN' }, {}, false],
    ['the key of M where it writes another Latin letter', { ...ctrl, key: 'q' }, {}, false],
    ['without a session', ctrl, { isActive: false }, false],
    ['held down', { ...ctrl, repeat: true }, {}, false],
    ['while a word is composed', { ...ctrl, isComposing: true }, {}, false],
    ['handled by somebody else', { ...ctrl, defaultPrevented: true }, {}, false],
    ['in an input', ctrl, { html: '<input id="here">' }, false],
    ['in a textarea', ctrl, { html: '<textarea id="here"></textarea>' }, false],
    ['in a select', ctrl, { html: '<select id="here"></select>' }, false],
    ['in contenteditable', ctrl, { html: '<div contenteditable><p id="here"></p></div>' }, false],
    ['in contenteditable="true"', ctrl, { html: '<div contenteditable="true" id="here"></div>' }, false],
    [
      'in contenteditable="plaintext-only"',
      ctrl,
      { html: '<div contenteditable="plaintext-only" id="here"></div>' },
      false,
    ],
    ['in contenteditable="false"', ctrl, { html: '<div contenteditable="false" id="here"></div>' }, true],
    ['on a button', ctrl, { html: '<button id="here"></button>' }, true],
  ];

  it.each(table)('%s', (_name, press, { isMac = false, isActive = true, html = '' }, opens) => {
    expect(isMarkerShortcut(press, { isMac, isActive, target: place(html) })).toBe(opens);
  });

  it('knows a Mac', () => {
    expect(['MacIntel', 'iPad', 'Linux x86_64', 'Win32', ''].map(isMacPlatform)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });
});
