/** The sidebar: what I work on, the pages, the connection, and who I am. Folded, it is a column of signs. */
import { useWorkQueueCounts, WorkingOnPicker } from '@sederunt/react';
import { Link, useLocation } from 'wouter';
import { useMe } from '../auth/SignInProvider.js';
import { classNames } from '../components/classNames.js';
import { Tooltip } from '../components/Tooltip.js';
import { PAGES, type PageEntry, pageAt } from '../pages.js';
import { AccountMenu } from './AccountMenu.js';
import { ConnectionState } from './ConnectionState.js';
import { RunningSessions } from './RunningSessions.js';

function PageLink({
  page,
  isHere,
  isFolded,
  count,
}: {
  page: PageEntry;
  isHere: boolean;
  isFolded: boolean;
  count: number;
}) {
  const link = (
    <Link
      href={page.path}
      aria-current={isHere ? 'page' : undefined}
      aria-label={isFolded ? page.title : undefined}
      onPointerEnter={() => void page.load().catch(() => undefined)}
      className={classNames(
        'flex min-h-8 items-center gap-3 rounded-control px-2 pointer-coarse:min-h-11',
        isHere ? 'bg-raised font-semibold text-ink' : 'text-soft hover:bg-raised hover:text-ink',
        isFolded && 'justify-center',
      )}
    >
      <page.icon size={16} aria-hidden="true" className="shrink-0" />
      {!isFolded && <span className="flex-1">{page.title}</span>}
      {!isFolded && count > 0 && (
        <span className="figures text-row">
          {count}
          <span className="sr-only"> need you</span>
        </span>
      )}
    </Link>
  );
  return isFolded ? (
    <Tooltip text={page.title} keys={`g ${page.letter}`} side="right">
      {link}
    </Tooltip>
  ) : (
    link
  );
}

export function Sidebar({ isFolded }: { isFolded: boolean }) {
  const [path] = useLocation();
  const me = useMe();
  const { counts } = useWorkQueueCounts();
  const here = pageAt(path);
  return (
    <div className="flex h-full flex-col gap-3 p-2">
      {isFolded ? (
        <WorkingOnPicker userId={me.user?.id} isCompact />
      ) : (
        <>
          <p className="px-2 pt-1 text-lead font-semibold">Sederunt</p>
          <div className="grid grid-cols-[minmax(0,1fr)] gap-1">
            <WorkingOnPicker userId={me.user?.id} />
            <RunningSessions />
          </div>
        </>
      )}
      <nav aria-label="Pages" className="grid min-h-0 gap-0.5 overflow-y-auto p-0.5">
        {PAGES.map((page) => (
          <PageLink
            key={page.name}
            page={page}
            isHere={page === here}
            isFolded={isFolded}
            count={page.name === 'today' ? (counts?.needs_me ?? 0) : 0}
          />
        ))}
      </nav>
      <div className={classNames('mt-auto grid gap-1', isFolded ? 'justify-items-center' : 'px-2')}>
        {!isFolded && <ConnectionState />}
        <AccountMenu isFolded={isFolded} />
      </div>
    </div>
  );
}
