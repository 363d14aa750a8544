/** The pages that exist: where they are, what they are called, and how they are loaded. The sidebar, the palette and `g` read this. */
import { BotMessageSquare, Inbox, List, type LucideIcon, Sun } from 'lucide-react';
import { type ComponentType, type LazyExoticComponent, lazy } from 'react';

export type PageName = 'today' | 'inbox' | 'sessions' | 'chat';

export interface PageEntry {
  name: PageName;
  title: string;
  /** Where the page begins; everything below this path is the page's too. */
  path: string;
  /** The letter after `g`. */
  letter: string;
  icon: LucideIcon;
  /** Loads the page's code. Its module exports a component called `Page`. */
  load: () => Promise<{ Page: ComponentType }>;
  component: LazyExoticComponent<ComponentType>;
}

function entry(parts: Omit<PageEntry, 'component'>): PageEntry {
  return { ...parts, component: lazy(() => parts.load().then((module) => ({ default: module.Page }))) };
}

export const PAGES: readonly PageEntry[] = [
  entry({
    name: 'today',
    title: 'Today',
    path: '/',
    letter: 't',
    icon: Sun,
    load: () => import('./pages/today/index.js'),
  }),
  entry({
    name: 'inbox',
    title: 'Inbox',
    path: '/inbox',
    letter: 'i',
    icon: Inbox,
    load: () => import('./pages/inbox/index.js'),
  }),
  entry({
    name: 'sessions',
    title: 'Sessions',
    path: '/sessions',
    letter: 's',
    icon: List,
    load: () => import('./pages/sessions/index.js'),
  }),
  entry({
    name: 'chat',
    title: 'Chat',
    path: '/chat',
    letter: 'c',
    icon: BotMessageSquare,
    load: () => import('./pages/chat/index.js'),
  }),
];

/** The page that a path belongs to. */
export function pageAt(path: string): PageEntry | undefined {
  return PAGES.find((page) => path === page.path || (page.path !== '/' && path.startsWith(`${page.path}/`)));
}
