/** One row of the inbox: two lines, and a box by which like approvals are selected together. */
import type { Approval } from '@sederunt/react';
import { Link } from 'wouter';
import { classNames } from '../../components/classNames.js';
import { useNow } from '../../components/clock.js';
import { ApprovalSign } from '../../decisions/ApprovalSign.js';
import { approvalTitle, isExpiringSoon, stagedWords, waitWords } from '../../decisions/approvalWords.js';
import type { ListCursor } from '../../keyboard/useListCursor.js';

export interface ApprovalRowProps {
  approval: Approval;
  /** The name of the session that asks. */
  about: string | undefined;
  href: string;
  cursor: ListCursor;
  isOpen: boolean;
  isSelected: boolean;
  /** False where another kind of approval is selected, or where this one is decided alone. */
  canSelect: boolean;
  onSelect: () => void;
}

export function ApprovalRow(props: ApprovalRowProps) {
  const { approval, about, href, cursor, isOpen, isSelected, canSelect, onSelect } = props;
  const now = useNow();
  const { ref, ...rowProps } = cursor.rowProps(approval.id);
  const title = approvalTitle(approval, about);
  const under = [about === title ? '' : about, stagedWords(approval)].filter(Boolean).join(' · ');
  return (
    <li className={classNames('flex items-center', isOpen ? 'bg-sunken' : 'hover:bg-sunken')}>
      <label className="grid size-9 shrink-0 place-items-center pointer-coarse:size-11">
        <input
          type="checkbox"
          aria-label={`Select ${title}`}
          checked={isSelected}
          disabled={!canSelect}
          onChange={onSelect}
          className={canSelect ? 'size-3.5 accent-(--accent)' : 'invisible'}
        />
      </label>
      <Link
        href={href}
        replace={isOpen}
        data-row=""
        {...rowProps}
        ref={ref}
        aria-current={isOpen ? 'true' : undefined}
        className="grid min-h-11 min-w-0 flex-1 grid-cols-[minmax(0,1fr)] content-center rounded-control py-1 pr-3"
      >
        <span className="flex items-center gap-2 text-row">
          <ApprovalSign kind={approval.kind} />
          <span dir="auto" className={classNames('min-w-0 flex-1 truncate', isOpen && 'font-semibold')}>
            {title}
          </span>
          <span
            className={classNames(
              'figures shrink-0 text-meta',
              isExpiringSoon(approval, now) ? 'text-waiting-human' : 'text-soft',
            )}
          >
            {waitWords(approval, now)}
          </span>
        </span>
        {under !== '' && (
          <span dir="auto" className="truncate pl-6 text-meta text-soft">
            {under}
          </span>
        )}
      </Link>
    </li>
  );
}
