/** One session: what is known of it, what can be done with it, and its log in five ways. */
import { isRefusal, type Session, useSessionEvents } from '@sederunt/react';
import { Tabs } from 'radix-ui';
import { lazy, type ReactNode, Suspense } from 'react';
import { Link, useLocation } from 'wouter';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { useKey } from '../../keyboard/KeyboardProvider.js';
import { leadingTo } from '../../lib/entryRow.js';
import { useUrlParameters } from '../../lib/urlParameters.js';
import { useNoteVisit } from '../../palette/visits.js';
import { usePageTitle } from '../../shell/pageFrame.js';
import { listAddress } from '../sessions/listAddress.js';
import { sessionAddress, sessionName } from '../sessions/sessionName.js';
import { FactsStrip } from './FactsStrip.js';
import { type ChangeParameters, SESSION_PARAMETERS, type SessionParameters, TABS, type TabName } from './parameters.js';
import { SessionHeader } from './SessionHeader.js';
import { TranscriptTab } from './TranscriptTab.js';
import { useChildren } from './useChildren.js';
import { useSessionActions } from './useSessionActions.js';
import { useSessionRow } from './useSessionRow.js';

const TimelineTab = lazy(() => import('./TimelineTab.js').then((module) => ({ default: module.TimelineTab })));
const StepsTab = lazy(() => import('./StepsTab.js').then((module) => ({ default: module.StepsTab })));
const ResultTab = lazy(() => import('./ResultTab.js').then((module) => ({ default: module.ResultTab })));
const RawTab = lazy(() => import('./RawTab.js').then((module) => ({ default: module.RawTab })));

const TAB_WORDS: Record<TabName, string> = {
  transcript: 'Transcript',
  timeline: 'Timeline',
  steps: 'Steps',
  result: 'Result',
  raw: 'Raw',
};

function BackLink() {
  return (
    <Link href={listAddress()} className="inline-flex min-h-7 items-center text-row text-accent underline">
      Back to the sessions
    </Link>
  );
}

/** `Esc` leaves the page; where a person types, it only leaves the field. */
function useLeave(id: string) {
  const [, navigate] = useLocation();
  useKey('leave', (event) => {
    const { target } = event;
    if (target instanceof HTMLElement && target.matches('input, textarea, select')) target.blur();
    else navigate(listAddress(), { state: leadingTo(id) });
  });
}

interface OpenSessionProps {
  row: Session;
  parameters: SessionParameters;
  onChange: ChangeParameters;
}

/** What a tab shows. The panel is there while its code is read, because its tab names it. */
function Panel({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Tabs.Content value={name} tabIndex={-1}>
      <Suspense fallback={<Skeleton />}>{children}</Suspense>
    </Tabs.Content>
  );
}

function OpenSession({ row, parameters, onChange }: OpenSessionProps) {
  const { tab, seq, show } = parameters;
  const actions = useSessionActions(row);
  const children = useChildren(row.id);
  const count = children.data?.length ?? 0;
  useLeave(row.id);
  useNoteVisit(sessionAddress(row.id), sessionName(row));
  return (
    <>
      <SessionHeader row={row} actions={actions} />
      <FactsStrip row={row} />
      <Tabs.Root
        value={tab}
        onValueChange={(value) => onChange({ tab: TABS.find((one) => one === value) ?? 'transcript' })}
        className="flex min-h-0 flex-1 flex-col gap-3"
      >
        <Tabs.List
          aria-label="Views of this session"
          className="flex shrink-0 gap-1 overflow-x-auto border-b border-line"
        >
          {TABS.map((name) => (
            <Tabs.Trigger
              key={name}
              value={name}
              className="min-h-8 border-b-2 border-transparent px-3 text-row whitespace-nowrap text-soft hover:text-ink data-[state=active]:border-accent data-[state=active]:font-semibold data-[state=active]:text-ink"
            >
              {TAB_WORDS[name]}
              {name === 'steps' && count > 0 && <span className="figures"> {count}</span>}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="transcript" tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          <TranscriptTab row={row} seq={seq} show={show} onChange={onChange} onFork={actions.fork} />
        </Tabs.Content>
        <Panel name="timeline">
          <TimelineTab row={row} seq={seq} onOpen={(sequence) => onChange({ tab: 'transcript', seq: sequence })} />
        </Panel>
        <Panel name="steps">
          <StepsTab id={row.id} />
        </Panel>
        <Panel name="result">
          <ResultTab row={row} />
        </Panel>
        <Panel name="raw">
          <RawTab row={row} onDownload={() => actions.download('json')} />
        </Panel>
      </Tabs.Root>
    </>
  );
}

function NotReadable({ error, onRetry }: { error: Error; onRetry: () => void }) {
  if (isRefusal(error) && error.status === 404) {
    const gone = new Error('There is no such session, or it is not yours to see.');
    return <ErrorState error={gone} action={<BackLink />} />;
  }
  const isFinal = isRefusal(error) && error.status === 403;
  return <ErrorState error={error} onRetry={isFinal ? undefined : onRetry} action={<BackLink />} />;
}

/** Reads the log while the row is still on its way. */
function LogAhead({ id }: { id: string }) {
  useSessionEvents(id);
  return null;
}

export function Page({ id }: { id: string }) {
  const [parameters, change] = useUrlParameters(SESSION_PARAMETERS);
  const { row, isDeleted, error, refetch } = useSessionRow(id);
  usePageTitle(isDeleted || row === undefined ? 'Session' : sessionName(row), {
    href: listAddress(),
    label: 'Sessions',
    row: id,
  });
  return (
    <div className="flex h-full flex-col gap-3 p-4">
      {isDeleted && <EmptyState action={<BackLink />}>This session was deleted.</EmptyState>}
      {!isDeleted && row === undefined && error !== null && <NotReadable error={error} onRetry={refetch} />}
      {!isDeleted && row === undefined && error === null && (
        <>
          <Skeleton />
          {parameters.seq === null && parameters.show.length === 0 && <LogAhead id={id} />}
        </>
      )}
      {!isDeleted && row !== undefined && <OpenSession row={row} parameters={parameters} onChange={change} />}
    </div>
  );
}
