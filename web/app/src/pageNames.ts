/** Names of the pages, without their code: what the keyboard map needs to know about them. */

export interface PageTexts {
  name: string;
  title: string;
  /** Where the page begins; everything below this path is the page's too. */
  path: string;
  /** The letter after `g`. */
  letter: string;
}

export const PAGE_TEXTS = [
  { name: 'today', title: 'Today', path: '/', letter: 't' },
  { name: 'inbox', title: 'Inbox', path: '/inbox', letter: 'i' },
  { name: 'sessions', title: 'Sessions', path: '/sessions', letter: 's' },
  { name: 'chat', title: 'Chat', path: '/chat', letter: 'c' },
] as const satisfies readonly PageTexts[];

export type PageName = (typeof PAGE_TEXTS)[number]['name'];
