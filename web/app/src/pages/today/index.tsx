/** Today: what needs the person, what runs, what can be handed over, what failed, and what was done. */
import { durationText, useWorkQueueCounts, type WorkQueueBucket, WorkQueueCommandStrip } from '@sederunt/react';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { useMe } from '../../auth/SignInProvider.js';
import { Button } from '../../components/Button.js';
import { useNow } from '../../components/clock.js';
import { ErrorState } from '../../components/ErrorState.js';
import { ListRow } from '../../components/ListRow.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { ApprovalSign } from '../../decisions/ApprovalSign.js';
import { byUrgency, stagedWords, waitWords } from '../../decisions/approvalWords.js';
import { useDecisions, useUndecided } from '../../decisions/DecisionsProvider.js';
import { inboxPath } from '../../decisions/inboxPath.js';
import { RejectDialog } from '../../decisions/RejectDialog.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';
import { type ListCursor, useListCursor } from '../../keyboard/useListCursor.js';
import { PageHeader, usePageTitle } from '../../shell/pageFrame.js';
import { QueueSection, sectionAnchor } from './QueueSection.js';
import { itemHref, itemId, itemTitle } from './queueWords.js';
import { StepProgress } from './StepProgress.js';
import { type QueueItem, useBucket } from './useBucket.js';
import { useRetry, useTrigger } from './useQueueActions.js';

function TodaysDate() {
  const now = useNow();
  const words = new Date(now).toLocaleDateString(undefined, { weekday: 'short', day: 'numeric', month: 'short' });
  return <span className="text-row text-soft">{words}</span>;
}

function scrollToSection(bucket: WorkQueueBucket): void {
  const section = document.getElementById(sectionAnchor(bucket));
  section?.scrollIntoView({ block: 'start' });
  section?.querySelector<HTMLElement>('[data-row], button')?.focus({ preventScroll: true });
}

function Strip() {
  const { counts, error, refetch } = useWorkQueueCounts();
  if (counts === undefined && error !== null) return <ErrorState error={error} onRetry={() => void refetch()} />;
  return <WorkQueueCommandStrip counts={counts} onPick={scrollToSection} />;
}

/** The lines that need the person: approvals by urgency, then sessions that wait for something else. */
function useNeeds() {
  const state = useBucket('needs_me');
  const undecided = useUndecided(state.items, (item) => item.approval);
  const order = byUrgency(Date.now());
  const approvals = undecided.filter((item) => item.approval);
  approvals.sort((one, other) => (one.approval && other.approval ? order(one.approval, other.approval) : 0));
  return { state, items: [...approvals, ...undecided.filter((item) => !item.approval)] };
}

type Needs = ReturnType<typeof useNeeds>;

/** Deciding on lines of Today, by their buttons and by keys on the current one. */
function useDecideHere(needs: Needs, cursor: ListCursor) {
  const { decide } = useDecisions();
  const { can } = useMe();
  const isAllowed = can.includes('decide');
  const [, navigate] = useLocation();
  const [rejected, setRejected] = useState<QueueItem | null>(null);
  const moveOnFrom = (item: QueueItem) => {
    const ids = needs.items.map(itemId);
    const at = ids.indexOf(itemId(item));
    const next = ids[at + 1] ?? ids[at - 1];
    if (next !== undefined) cursor.moveTo(next);
  };
  const approve = (item: QueueItem) => {
    const { approval } = item;
    if (!approval) return;
    // A question is answered, and what cannot be read is looked at: both in the inbox.
    if (approval.kind === 'question' || approval.kind === 'broken') return navigate(inboxPath(approval.id));
    moveOnFrom(item);
    decide([approval], { decision: 'approve' });
  };
  const reject = (reason: string) => {
    const approval = rejected?.approval;
    if (rejected === null || !approval) return;
    moveOnFrom(rejected);
    decide([approval], { decision: 'deny', ...(reason === '' ? {} : { reason }) });
    setRejected(null);
  };
  const edit = (item: QueueItem) => item.approval && navigate(inboxPath(item.approval.id, 'edit'));
  const ofCurrent = (act: (item: QueueItem) => unknown) => () => {
    const item = needs.items.find((one) => itemId(one) === cursor.current);
    if (!item?.approval || !isAllowed) return false;
    act(item);
    return true;
  };
  useKeys({ approve: ofCurrent(approve), edit: ofCurrent(edit), reject: ofCurrent(setRejected) });
  return { isAllowed, approve, edit, reject, rejected, setRejected };
}

type DecideHere = ReturnType<typeof useDecideHere>;

function NeedsRow({ item, cursor, here }: { item: QueueItem; cursor: ListCursor; here: DecideHere }) {
  const now = useNow();
  const { approval, session } = item;
  const id = itemId(item);
  const shared = { id, href: itemHref(item), cursor, title: itemTitle(item) };
  if (!approval) {
    return (
      <ListRow
        {...shared}
        lead={session && <StatusBadge status={session.status} />}
        facts={<TimeAgo at={session?.last_activity_at} />}
      />
    );
  }
  const isDecidable = here.isAllowed && ['tool', 'output', 'promotion'].includes(approval.kind);
  const isCurrent = cursor.current === id;
  return (
    <ListRow
      {...shared}
      lead={<ApprovalSign kind={approval.kind} />}
      facts={
        <>
          <span className="max-wide:hidden">{stagedWords(approval)}</span>
          <span className="figures">{waitWords(approval, now)}</span>
        </>
      }
      actions={
        <span className="flex gap-1 max-wide:hidden">
          {isDecidable && (
            <>
              <Button kind="ghost" shortcut={isCurrent ? 'approve' : undefined} onClick={() => here.approve(item)}>
                Approve
              </Button>
              <Button kind="ghost" shortcut={isCurrent ? 'edit' : undefined} onClick={() => here.edit(item)}>
                Edit
              </Button>
              <Button kind="ghost" shortcut={isCurrent ? 'reject' : undefined} onClick={() => here.setRejected(item)}>
                Reject…
              </Button>
            </>
          )}
          {here.isAllowed && approval.kind === 'question' && (
            <Button kind="ghost" shortcut={isCurrent ? 'approve' : undefined} onClick={() => here.approve(item)}>
              Answer
            </Button>
          )}
        </span>
      }
    />
  );
}

function Elapsed({ since }: { since: string | null | undefined }) {
  const now = useNow();
  return since ? <span className="figures">{durationText(now - Date.parse(since))}</span> : null;
}

export function Page() {
  usePageTitle('Today');
  const [, navigate] = useLocation();
  const needs = useNeeds();
  const running = useBucket('running');
  const delegatable = useBucket('delegatable');
  const failed = useBucket('failed');
  const done = useBucket('done_today');
  const trigger = useTrigger();
  const mayTrigger = useMe().can.includes('trigger');
  const retry = useRetry();
  const all = [...needs.items, ...running.items, ...delegatable.items, ...failed.items, ...done.items];
  const cursor = useListCursor(all.map(itemId), (id) => {
    const item = all.find((one) => itemId(one) === id);
    if (item !== undefined) navigate(itemHref(item));
  });
  const here = useDecideHere(needs, cursor);
  useKeys({
    trigger: () => {
      const task = delegatable.items.find((item) => itemId(item) === cursor.current)?.task;
      if (!task || !mayTrigger) return false;
      trigger.run(task.id, task.name);
      return true;
    },
  });
  const shared = (item: QueueItem) => ({ id: itemId(item), href: itemHref(item), cursor, title: itemTitle(item) });

  return (
    <div className="grid max-w-5xl grid-cols-[minmax(0,1fr)] gap-4 p-4">
      <PageHeader>
        <TodaysDate />
      </PageHeader>
      <Strip />
      <QueueSection
        bucket="needs_me"
        title="Needs you"
        empty="Nothing needs you."
        state={needs.state}
        items={needs.items}
        row={(item) => <NeedsRow key={itemId(item)} item={item} cursor={cursor} here={here} />}
      />
      <QueueSection
        bucket="running"
        title="Running"
        empty="Nothing runs."
        state={running}
        items={running.items}
        row={(item) => (
          <ListRow
            key={itemId(item)}
            {...shared(item)}
            lead={item.session && <StatusBadge status={item.session.status} />}
            facts={
              <>
                {item.session && <StepProgress session={item.session} />}
                <Elapsed since={item.session?.started_at} />
              </>
            }
          />
        )}
      />
      <QueueSection
        bucket="delegatable"
        title="Can be handed over"
        empty="No task waits to be handed over."
        state={delegatable}
        items={delegatable.items}
        row={(item) => (
          <ListRow
            key={itemId(item)}
            {...shared(item)}
            facts={item.task?.agent_slug && <span className="max-wide:hidden">agent {item.task.agent_slug}</span>}
            actions={
              mayTrigger &&
              item.task && (
                <Button
                  isBusy={trigger.busyId === item.task.id}
                  shortcut={cursor.current === item.task.id ? 'trigger' : undefined}
                  onClick={() => item.task && trigger.run(item.task.id, item.task.name)}
                >
                  Trigger
                </Button>
              )
            }
          />
        )}
      />
      <QueueSection
        bucket="failed"
        title="Failed"
        empty="Nothing has failed since yesterday."
        state={failed}
        items={failed.items}
        row={(item) => (
          <ListRow
            key={itemId(item)}
            {...shared(item)}
            lead={item.session && <StatusBadge status={item.session.status} />}
            facts={
              <>
                <span dir="auto" className="max-w-80 truncate max-wide:hidden">
                  {item.session?.error_message}
                </span>
                <TimeAgo at={item.session?.last_activity_at} />
              </>
            }
            actions={
              mayTrigger &&
              item.session && (
                <Button
                  isBusy={retry.busyId === item.session.id}
                  onClick={() => item.session && retry.run(item.session.id, itemTitle(item))}
                >
                  Retry
                </Button>
              )
            }
          />
        )}
      />
      <QueueSection
        bucket="done_today"
        title="Done today"
        empty="Nothing is done yet today."
        state={done}
        items={done.items}
        row={(item) => (
          <ListRow
            key={itemId(item)}
            {...shared(item)}
            lead={item.session && <StatusBadge status={item.session.status} />}
            facts={<TimeAgo at={item.session?.completed_at} />}
          />
        )}
      />
      {here.rejected !== null && (
        <RejectDialog
          title={`Reject ${itemTitle(here.rejected)}`}
          onReject={here.reject}
          onClose={() => here.setRejected(null)}
        />
      )}
    </div>
  );
}
