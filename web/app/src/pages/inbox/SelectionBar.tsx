/** What can be done with the selected approvals. */
import { Button } from '../../components/Button.js';
import type { Selection } from './useSelection.js';

export interface SelectionBarProps {
  selection: Selection;
  onApprove: () => void;
  onReject: () => void;
}

export function SelectionBar({ selection, onApprove, onReject }: SelectionBarProps) {
  const count = selection.selected.length;
  return (
    <section
      aria-label="Selected approvals"
      className="flex flex-wrap items-center gap-2 rounded-card border border-line bg-raised p-2"
    >
      <span className="figures px-1 text-row">{count} selected</span>
      {selection.alike.length > count && (
        <Button kind="ghost" onClick={selection.selectAlike}>
          Select all {selection.alike.length} alike
        </Button>
      )}
      <span className="ml-auto flex gap-2">
        <Button kind="primary" shortcut="approve" onClick={onApprove}>
          Approve {count}
        </Button>
        <Button shortcut="reject" onClick={onReject}>
          Reject {count}…
        </Button>
        <Button kind="ghost" shortcut="leave" onClick={selection.clear}>
          Clear
        </Button>
      </span>
    </section>
  );
}
