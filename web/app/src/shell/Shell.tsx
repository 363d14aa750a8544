/** The frame around every page: sidebar, bar, page and panel. */
import { ActivityRecorderMount, useWorkQueueCounts } from '@sederunt/react';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { Sheet } from '../components/Dialog.js';
import { Skeleton } from '../components/Skeleton.js';
import { useKey, useKeys } from '../keyboard/KeyboardProvider.js';
import { NEW_CHAT_ASKED } from '../lib/newChatAsked.js';
import { storedChoice } from '../lib/storedChoice.js';
import { useMediaQuery, WIDE } from '../lib/useMediaQuery.js';
import { PAGES, pageAt } from '../pages.js';
import { PageBoundary } from './PageBoundary.js';
import { usePageFrame } from './pageFrame.js';
import { Sidebar } from './Sidebar.js';
import { TopBar } from './TopBar.js';

const sidebar = storedChoice('sederunt:sidebar', ['open', 'folded']);
const panel = storedChoice('sederunt:panel', ['open', 'folded']);

const NotFound = lazy(() => import('./NotFound.js').then((module) => ({ default: module.NotFound })));

/** The tab's title, with how much needs the person. */
function useDocumentTitle(): void {
  const { title } = usePageFrame();
  const { counts } = useWorkQueueCounts();
  const waiting = counts?.needs_me ?? 0;
  useEffect(() => {
    const page = title.text === '' ? 'Sederunt' : `${title.text} · Sederunt`;
    document.title = waiting > 0 ? `(${waiting}) ${page}` : page;
  }, [title.text, waiting]);
}

function useGoToKeys(): void {
  const [path, navigate] = useLocation();
  useKeys(Object.fromEntries(PAGES.map((page) => [`go-${page.name}`, () => navigate(page.path)])));
  // In the chat the page begins the new one itself.
  useKey('new-chat', () => (pageAt(path)?.name === 'chat' ? false : navigate('/chat', { state: NEW_CHAT_ASKED })));
}

/** How long a page may take to load until the focus that it loses stays lost, and how often that is looked at. */
const PAGE_WAIT_MS = 10_000;
const PAGE_POLL_MS = 50;

/**
 * Moves the focus to the page when another page is shown, but not when the app starts. Within one page only where it is lost, as
 * with the row of a list that gave way to what it leads to.
 */
function useFocusOfPage(place: string, path: string) {
  const main = useRef<HTMLElement>(null);
  const shown = useRef({ place, path });
  useEffect(() => {
    const before = shown.current;
    if (before.path === path) return undefined;
    shown.current = { place, path };
    const isOtherPage = before.place !== place;
    if (isOtherPage) main.current?.scrollTo(0, 0);
    const left = document.activeElement;
    const end = performance.now() + PAGE_WAIT_MS;
    let wait: ReturnType<typeof setTimeout> | undefined;
    const take = () => {
      const { activeElement } = document;
      const isLost = activeElement === null || activeElement === document.body;
      // A page that has put the focus into one of its fields keeps it there, and so does a layer over it.
      const isElsewhere = activeElement?.closest('main, [role="dialog"], [role="alertdialog"]') === null;
      if (isLost || (isOtherPage && isElsewhere)) main.current?.focus({ preventScroll: true });
      // What led here stays until the page is loaded, and only then loses the focus.
      else if (activeElement === left && performance.now() < end) wait = setTimeout(take, PAGE_POLL_MS);
    };
    // What is hidden meanwhile loses the focus only when the next frame has been drawn.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(take);
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(wait);
    };
  }, [place, path]);
  return main;
}

function PanelColumn({ isWide }: { isWide: boolean }) {
  const { panelUsers, setPanelSlot } = usePageFrame();
  const isWanted = panel.use() === 'open';
  const [isSheetOpen, setSheetOpen] = useState(false);
  const isUsed = panelUsers > 0;
  useKey('panel', () => (isWide ? panel.set(isWanted ? 'folded' : 'open') : setSheetOpen((before) => !before)), isUsed);
  if (!isUsed) return null;
  if (isWide) {
    if (!isWanted) return null;
    return (
      <aside
        aria-label="Panel"
        ref={setPanelSlot}
        className="w-(--panel-width) shrink-0 overflow-y-auto border-l border-line p-4"
      />
    );
  }
  return (
    <Sheet side="right" title="Panel" isOpen={isSheetOpen} onOpenChange={setSheetOpen}>
      <div ref={setPanelSlot} />
    </Sheet>
  );
}

function PageColumn({ place, path }: { place: string; path: string }) {
  const main = useFocusOfPage(place, path);
  const page = pageAt(path);
  const Page = page?.component ?? NotFound;
  return (
    // The id is the target of the link that skips the sidebar.
    // biome-ignore lint/correctness/useUniqueElementIds: there is one page on screen.
    <main id="page" ref={main} tabIndex={-1} className="min-h-0 min-w-0 flex-1 overflow-y-auto">
      <PageBoundary place={path}>
        <Suspense fallback={<div className="p-4">{<Skeleton />}</div>}>
          <Page />
        </Suspense>
      </PageBoundary>
    </main>
  );
}

export function Shell() {
  const [path] = useLocation();
  const isWide = useMediaQuery(WIDE);
  const isFolded = sidebar.use() === 'folded';
  const [isDrawerOpen, setDrawerOpen] = useState(false);
  const place = pageAt(path)?.name ?? path;
  useDocumentTitle();
  useGoToKeys();
  useKey('sidebar', () => (isWide ? sidebar.set(isFolded ? 'open' : 'folded') : setDrawerOpen((before) => !before)));
  // biome-ignore lint/correctness/useExhaustiveDependencies: another path closes the drawer.
  useEffect(() => setDrawerOpen(false), [path]);

  return (
    <div className="flex h-dvh flex-col">
      <a href="#page" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-raised focus:p-3">
        Skip to the page
      </a>
      <ActivityRecorderMount />
      <div className="flex min-h-0 flex-1">
        {isWide ? (
          <aside
            aria-label="Sidebar"
            className={`relative z-10 shrink-0 border-r border-line bg-sunken ${isFolded ? 'w-(--sidebar-width-icons)' : 'w-(--sidebar-width)'}`}
          >
            <Sidebar isFolded={isFolded} />
          </aside>
        ) : (
          <Sheet side="left" title="Pages" isOpen={isDrawerOpen} onOpenChange={setDrawerOpen}>
            <Sidebar isFolded={false} />
          </Sheet>
        )}
        <div className="flex min-w-0 flex-1 flex-col">
          <TopBar onOpenDrawer={isWide ? undefined : () => setDrawerOpen(true)} />
          <div className="flex min-h-0 flex-1">
            <PageColumn place={place} path={path} />
            <PanelColumn isWide={isWide} />
          </div>
        </div>
      </div>
    </div>
  );
}
