/** Inbox: what this person can decide. The list is at the left, the approval at the right; deciding moves on to the next. */
import type { Approval, ApprovalHandle } from '@sederunt/react';
import { useEffect, useRef, useState } from 'react';
import { useLocation, useRoute } from 'wouter';
import { useMe } from '../../auth/SignInProvider.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Skeleton } from '../../components/Skeleton.js';
import { useToast } from '../../components/ToastProvider.js';
import { useDecisions } from '../../decisions/DecisionsProvider.js';
import { RejectDialog } from '../../decisions/RejectDialog.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';
import { useListCursor } from '../../keyboard/useListCursor.js';
import { useUrlParameters, writeParameters } from '../../lib/urlParameters.js';
import { useMediaQuery, WIDE } from '../../lib/useMediaQuery.js';
import { PageHeader, usePageTitle } from '../../shell/pageFrame.js';
import { ApprovalPane } from './ApprovalPane.js';
import { ApprovalRow } from './ApprovalRow.js';
import { FILTERS, KIND_FILTERS } from './filters.js';
import { SelectionBar } from './SelectionBar.js';
import { usePendingApprovals } from './usePendingApprovals.js';
import { useSelection } from './useSelection.js';

type Kind = (typeof KIND_FILTERS)[number]['kind'];

function KindFilter({
  kind,
  countOf,
  onPick,
}: {
  kind: Kind;
  countOf: (kind: Kind) => number;
  onPick: (kind: Kind) => void;
}) {
  return (
    <fieldset className="flex flex-wrap">
      <legend className="sr-only">Kinds</legend>
      {KIND_FILTERS.map((filter) => (
        <button
          key={filter.words}
          type="button"
          aria-pressed={filter.kind === kind}
          onClick={() => onPick(filter.kind)}
          className="min-h-7 rounded-control border border-transparent px-1.5 text-row text-soft hover:text-ink aria-pressed:border-line aria-pressed:bg-raised aria-pressed:text-ink"
        >
          {filter.words} <span className="figures">{countOf(filter.kind)}</span>
        </button>
      ))}
    </fieldset>
  );
}

function WhoseFilter({ whose, onPick }: { whose: 'mine' | 'all'; onPick: (whose: 'mine' | 'all') => void }) {
  return (
    <select
      aria-label="Whose approvals"
      value={whose}
      onChange={(event) => onPick(event.target.value === 'all' ? 'all' : 'mine')}
      className="min-h-7 rounded-control border border-edge bg-raised px-2 text-row"
    >
      <option value="mine">Mine</option>
      <option value="all">All of the tenant</option>
    </select>
  );
}

/** The approval after the decided one, or the one before it at the end. */
function neighbour(ids: readonly string[], id: string): string | undefined {
  const at = ids.indexOf(id);
  return at < 0 ? ids[0] : (ids[at + 1] ?? ids[at - 1]);
}

function useInbox() {
  const [{ kind, whose, do: begin }, change] = useUrlParameters(FILTERS);
  const [, navigate] = useLocation();
  const [, params] = useRoute('/inbox/:approval');
  const list = usePendingApprovals(whose);
  const shown = list.approvals.filter((approval) => kind === null || approval.kind === kind);
  const ids = shown.map((approval) => approval.id);
  const href = (id: string | undefined) => {
    const path = id === undefined ? '/inbox' : `/inbox/${encodeURIComponent(id)}`;
    return path + writeParameters(FILTERS, { kind, whose });
  };
  const goTo = (id: string | undefined, replace = true) => navigate(href(id), { replace });
  return { kind, whose, begin, change, list, shown, ids, href, goTo, openId: params?.approval };
}

type Inbox = ReturnType<typeof useInbox>;

/** Keys of the list and of the open approval. What is selected goes before what is open. */
function useInboxKeys(inbox: Inbox, handle: { current: ApprovalHandle | null }, isWide: boolean) {
  const { ids, shown, openId, goTo } = inbox;
  const cursor = useListCursor(ids, (id) => goTo(id, false));
  const selection = useSelection(shown);
  const { decide } = useDecisions();
  const { show } = useToast();
  const [isRejecting, setRejecting] = useState(false);
  const count = selection.selected.length;

  const step = (by: 1 | -1) => {
    if (!isWide || ids.length === 0) return false;
    const at = openId === undefined ? -1 : ids.indexOf(openId);
    const id = ids[Math.max(0, Math.min(ids.length - 1, at + by))];
    if (id === undefined) return false;
    cursor.moveTo(id);
    goTo(id);
    return true;
  };
  const decideSelected = (verdict: Parameters<typeof decide>[1]) => {
    const decided = selection.selected;
    const left = ids.filter((id) => !decided.some((one) => one.id === id));
    if (openId !== undefined && !left.includes(openId)) goTo(isWide ? left[0] : undefined);
    decide(decided, verdict);
    selection.clear();
    setRejecting(false);
  };
  const approveSelected = () => decideSelected({ decision: 'approve' });
  const openOne = (act: (open: ApprovalHandle) => void) => () => {
    if (handle.current === null) return false;
    act(handle.current);
    return true;
  };
  useKeys({
    next: () => step(1),
    previous: () => step(-1),
    approve: () => (count > 0 ? approveSelected() : openOne((open) => open.approve())()),
    reject: () => (count > 0 ? setRejecting(true) : openOne((open) => open.reject())()),
    edit: openOne((open) => open.edit()),
    send: openOne((open) => open.send()),
    select: () => {
      const approval = shown.find((one) => one.id === (cursor.current ?? openId));
      if (approval === undefined) return false;
      if (!selection.toggle(approval)) {
        show({
          text: count > 0 ? 'Only approvals that are alike are selected together.' : 'This one is decided alone.',
        });
      }
      return true;
    },
    leave: () => {
      if (handle.current?.leave() === true) return true;
      if (count > 0) {
        selection.clear();
        return true;
      }
      if (isWide || openId === undefined) return false;
      goTo(undefined);
      return true;
    },
  });
  return { cursor, selection, isRejecting, setRejecting, approveSelected, decideSelected };
}

function ApprovalList({ inbox, keys }: { inbox: Inbox; keys: ReturnType<typeof useInboxKeys> }) {
  const { list, shown, kind, href, openId, change } = inbox;
  const { cursor, selection, setRejecting, approveSelected } = keys;
  if (list.error !== null && list.approvals.length === 0) {
    return <ErrorState error={list.error} onRetry={list.refetch} />;
  }
  if (list.isLoading) return <Skeleton />;
  if (shown.length === 0) {
    return kind === null ? (
      <EmptyState>Nothing needs you.</EmptyState>
    ) : (
      <EmptyState
        action={
          <button type="button" className="text-accent underline" onClick={() => change({ kind: null })}>
            Show all kinds
          </button>
        }
      >
        None of this kind needs you.
      </EmptyState>
    );
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      {selection.selected.length > 0 && (
        <SelectionBar selection={selection} onApprove={approveSelected} onReject={() => setRejecting(true)} />
      )}
      <ul aria-label="Approvals" className="divide-y divide-line rounded-card border border-line bg-raised">
        {shown.map((approval) => (
          <ApprovalRow
            key={approval.id}
            approval={approval}
            about={list.titles[approval.session_id]}
            href={href(approval.id)}
            cursor={cursor}
            isOpen={approval.id === openId}
            isSelected={selection.selected.includes(approval)}
            canSelect={selection.canSelect(approval)}
            onSelect={() => selection.toggle(approval)}
          />
        ))}
      </ul>
      {list.hasMore && (
        <p className="px-3 text-row text-soft">These are the newest 100. The others follow as you decide.</p>
      )}
    </div>
  );
}

export function Page() {
  const inbox = useInbox();
  const { list, shown, ids, openId, begin, change, kind, whose, goTo } = inbox;
  const isWide = useMediaQuery(WIDE);
  const { role } = useMe();
  const handle = useRef<ApprovalHandle>(null);
  const keys = useInboxKeys(inbox, handle, isWide);
  const isNarrowDetail = !isWide && openId !== undefined;
  usePageTitle('Inbox', isNarrowDetail ? { href: inbox.href(undefined), label: 'Inbox' } : undefined);

  // On wide screens there is always one open, and it does not change when others arrive.
  const firstId = isWide && openId === undefined ? ids[0] : undefined;
  const latestGoTo = useRef(goTo);
  latestGoTo.current = goTo;
  useEffect(() => {
    if (firstId !== undefined) latestGoTo.current(firstId);
  }, [firstId]);

  const moveOn = (decided: Approval) => {
    const next = neighbour(ids, decided.id);
    if (isWide && next !== undefined) keys.cursor.moveTo(next);
    goTo(isWide ? next : undefined);
  };
  const countOf = (one: Kind) => list.approvals.filter((approval) => one === null || approval.kind === one).length;
  const selectedCount = keys.selection.selected.length;
  return (
    <div className="flex h-full min-h-0">
      {role === 'owner' && !isNarrowDetail && (
        <PageHeader>
          <WhoseFilter whose={whose} onPick={(picked) => change({ whose: picked })} />
        </PageHeader>
      )}
      {!isNarrowDetail && (
        <div className="min-h-0 w-full shrink-0 overflow-y-auto p-4 wide:w-[400px] wide:border-r wide:border-line">
          <div className="pb-2">
            <KindFilter kind={kind} countOf={countOf} onPick={(picked) => change({ kind: picked })} />
          </div>
          <ApprovalList inbox={inbox} keys={keys} />
        </div>
      )}
      {openId !== undefined && (
        <div className="min-h-0 min-w-0 flex-1 overflow-y-auto p-4 wide:px-6">
          <ApprovalPane
            id={openId}
            title={list.titles[shown.find((approval) => approval.id === openId)?.session_id ?? '']}
            handle={handle}
            begin={begin}
            hasKeys={selectedCount === 0}
            onBegun={() => change({ do: null }, { replace: true })}
            onMoveOn={moveOn}
          />
        </div>
      )}
      {keys.isRejecting && selectedCount > 0 && (
        <RejectDialog
          title={`Reject ${selectedCount} ${selectedCount === 1 ? 'approval' : 'approvals'}`}
          onClose={() => keys.setRejecting(false)}
          onReject={(reason) => keys.decideSelected({ decision: 'deny', ...(reason === '' ? {} : { reason }) })}
        />
      )}
    </div>
  );
}
