/**
 * The whole keyboard map as data: which keys, where they work, and the words for them. The dispatcher, the dialog behind `?`,
 * menus and buttons read it; no component names a key of its own.
 */
import { PAGE_TEXTS, type PageName } from '../pageNames.js';

/** Where a key works, in the words of the dialog behind `?`. */
export type KeyPlace = 'Everywhere' | 'Go to' | 'Lists' | 'Approvals' | 'Sessions' | 'Chat' | 'Tasks' | 'Panels';

export interface KeyBinding {
  id: KeyId;
  /**
   * Keys that do the same. `mod` is ⌘ on a Mac and Ctrl elsewhere; two keys with a space between them are pressed one after the
   * other; a capital letter is pressed with Shift.
   */
  keys: readonly string[];
  place: KeyPlace;
  words: string;
  /** Works while a person types, and inside of dialogs. */
  worksWhileTyping?: true;
  /** Handled outside of the dispatcher: by the package, by a layer, or by the browser. */
  isElsewhere?: true;
}

const PLAIN_IDS = [
  'palette',
  'shortcuts',
  'search',
  'next',
  'previous',
  'open',
  'leave',
  'approve',
  'edit',
  'reject',
  'select',
  'new-chat',
  'trigger',
  'actions',
  'follow',
  'newest',
  'oldest',
  'sidebar',
  'panel',
  'send',
  'marker',
  'thumb-up',
  'thumb-down',
  'skip-rating',
] as const;

export type KeyId = (typeof PLAIN_IDS)[number] | `go-${PageName}`;

const GO_TO: readonly KeyBinding[] = PAGE_TEXTS.map((page) => ({
  id: `go-${page.name}`,
  keys: [`g ${page.letter}`],
  place: 'Go to',
  words: page.title,
}));

export const KEYMAP: readonly KeyBinding[] = [
  { id: 'palette', keys: ['mod+k'], place: 'Everywhere', words: 'Search, go and do', worksWhileTyping: true },
  { id: 'shortcuts', keys: ['?'], place: 'Everywhere', words: 'These keys' },
  { id: 'search', keys: ['/'], place: 'Everywhere', words: 'Search or filter here' },
  { id: 'leave', keys: ['Escape'], place: 'Everywhere', words: 'Close, then leave', worksWhileTyping: true },
  { id: 'new-chat', keys: ['c'], place: 'Everywhere', words: 'New chat' },
  {
    id: 'marker',
    keys: ['mod+m'],
    place: 'Everywhere',
    words: 'Note what you just did, while you work on a task',
    isElsewhere: true,
  },
  ...GO_TO,
  { id: 'next', keys: ['j'], place: 'Lists', words: 'Next' },
  { id: 'previous', keys: ['k'], place: 'Lists', words: 'Previous' },
  { id: 'open', keys: ['Enter'], place: 'Lists', words: 'Open' },
  { id: 'select', keys: ['x'], place: 'Lists', words: 'Select' },
  { id: 'actions', keys: ['.'], place: 'Lists', words: 'Actions of the selected thing' },
  { id: 'newest', keys: ['G', 'End'], place: 'Lists', words: 'Newest' },
  { id: 'oldest', keys: ['Home'], place: 'Lists', words: 'Oldest' },
  { id: 'approve', keys: ['a'], place: 'Approvals', words: 'Approve' },
  { id: 'edit', keys: ['e'], place: 'Approvals', words: 'Edit, then approve' },
  { id: 'reject', keys: ['r'], place: 'Approvals', words: 'Reject with a reason' },
  { id: 'send', keys: ['mod+Enter'], place: 'Approvals', words: 'Send or decide', worksWhileTyping: true },
  { id: 'follow', keys: ['l'], place: 'Sessions', words: 'Follow live' },
  { id: 'thumb-up', keys: ['y'], place: 'Chat', words: 'It was good' },
  { id: 'thumb-down', keys: ['n'], place: 'Chat', words: 'It was not good' },
  { id: 'skip-rating', keys: ['s'], place: 'Chat', words: 'Do not rate' },
  { id: 'trigger', keys: ['t'], place: 'Tasks', words: 'Trigger' },
  { id: 'sidebar', keys: ['['], place: 'Panels', words: 'Fold or unfold the sidebar' },
  { id: 'panel', keys: [']'], place: 'Panels', words: 'Show or hide the panel' },
];

const BY_ID: ReadonlyMap<KeyId, KeyBinding> = new Map(KEYMAP.map((binding) => [binding.id, binding]));

export function bindingOf(id: KeyId): KeyBinding {
  const binding = BY_ID.get(id);
  if (binding === undefined) throw new Error(`The keyboard map has no ${id}.`);
  return binding;
}
