/** The bar over the page: its title, what the page puts beside it, and the tools that are always there. */
import { ArrowLeft, Contrast, Menu as MenuIcon, Search } from 'lucide-react';
import { Link } from 'wouter';
import { IconButton } from '../components/IconButton.js';
import { leadingTo } from '../lib/entryRow.js';
import { useOpenPalette } from '../palette/PaletteHost.js';
import { ConnectionState } from './ConnectionState.js';
import { usePageFrame } from './pageFrame.js';
import { nextTheme, theme } from './theme.js';

export function TopBar({ onOpenDrawer }: { onOpenDrawer: (() => void) | undefined }) {
  const { title, setHeaderSlot } = usePageFrame();
  const openPalette = useOpenPalette();
  const chosen = theme.use();
  return (
    <header className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-2">
      {onOpenDrawer !== undefined && (
        <IconButton label="Pages" onClick={onOpenDrawer}>
          <MenuIcon size={16} aria-hidden="true" />
        </IconButton>
      )}
      {title.back !== undefined && (
        <Link
          href={title.back.href}
          state={title.back.row === undefined ? null : leadingTo(title.back.row)}
          className="flex min-h-7 items-center gap-1 text-row text-soft hover:text-ink"
        >
          <ArrowLeft size={14} aria-hidden="true" />
          {title.back.label}
        </Link>
      )}
      <h1 dir="auto" className="min-w-0 truncate text-title font-semibold">
        {title.text}
      </h1>
      <div
        ref={setHeaderSlot}
        className="flex min-w-0 flex-1 flex-wrap items-center gap-2 wide:not-empty:min-w-96 max-wide:order-last max-wide:basis-full max-wide:empty:hidden"
      />
      <div className="ml-auto flex items-center gap-1">
        <IconButton label="Search, go and do" shortcut="palette" onClick={openPalette}>
          <Search size={16} aria-hidden="true" />
        </IconButton>
        <IconButton label={`Theme: ${chosen}`} onClick={() => theme.set(nextTheme(chosen))}>
          <Contrast size={16} aria-hidden="true" />
        </IconButton>
        <ConnectionState isShort />
      </div>
    </header>
  );
}
