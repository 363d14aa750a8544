/** Which approvals are selected, to decide on them together: only such as are alike. */
import type { Approval } from '@sederunt/react';
import { useState } from 'react';
import { likenessOf } from '../../decisions/approvalWords.js';

export function useSelection(approvals: readonly Approval[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const selected = approvals.filter((approval) => ids.has(approval.id));
  const first = selected[0];
  const likeness = first === undefined ? null : likenessOf(first);
  const alike = likeness === null ? [] : approvals.filter((approval) => likenessOf(approval) === likeness);

  const canSelect = (approval: Approval) => {
    const own = likenessOf(approval);
    return own !== null && (likeness === null || own === likeness);
  };
  return {
    selected,
    /** All that can be decided together with what is selected. */
    alike,
    canSelect,
    toggle: (approval: Approval): boolean => {
      if (!canSelect(approval)) return false;
      // Those that have left the list are forgotten, so that none of them is decided unseen.
      const after = new Set(selected.map((one) => one.id));
      if (!after.delete(approval.id)) after.add(approval.id);
      setIds(after);
      return true;
    },
    selectAlike: () => setIds(new Set(alike.map((approval) => approval.id))),
    clear: () => setIds(new Set()),
  };
}

export type Selection = ReturnType<typeof useSelection>;
