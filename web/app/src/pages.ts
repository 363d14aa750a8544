/** The pages that exist, with their signs and how they are loaded. The sidebar and the palette read this. */
import { BotMessageSquare, Inbox, List, type LucideIcon, Sun } from 'lucide-react';
import { type ComponentType, type LazyExoticComponent, lazy } from 'react';
import { PAGE_TEXTS, type PageName, type PageTexts } from './pageNames.js';

export interface PageEntry extends PageTexts {
  name: PageName;
  icon: LucideIcon;
  /** Loads the page's code. Its module exports a component called `Page`. */
  load: () => Promise<{ Page: ComponentType }>;
  component: LazyExoticComponent<ComponentType>;
}

const PARTS: Readonly<Record<PageName, Pick<PageEntry, 'icon' | 'load'>>> = {
  today: { icon: Sun, load: () => import('./pages/today/index.js') },
  inbox: { icon: Inbox, load: () => import('./pages/inbox/index.js') },
  sessions: { icon: List, load: () => import('./pages/sessions/index.js') },
  chat: { icon: BotMessageSquare, load: () => import('./pages/chat/index.js') },
};

export const PAGES: readonly PageEntry[] = PAGE_TEXTS.map((texts) => {
  const { icon, load } = PARTS[texts.name];
  return { ...texts, icon, load, component: lazy(() => load().then((module) => ({ default: module.Page }))) };
});

/** The page that a path belongs to. */
export function pageAt(path: string): PageEntry | undefined {
  return PAGES.find((page) => path === page.path || (page.path !== '/' && path.startsWith(`${page.path}/`)));
}
