/** The menu at the end of a row. It is made when it is first opened: rows come and go with each scroll. */
import { contentText, type SessionEvent } from '@sederunt/react';
import { Braces, Copy, Ellipsis, GitFork, Link2 } from 'lucide-react';
import { useState } from 'react';
import { Menu, MenuItem } from '../../components/Menu.js';

const ICON = { size: 14, 'aria-hidden': true } as const;

export interface RowDoings {
  copyText: (text: string) => void;
  copyLink: (sequence: number) => void;
  fork: (sequence: number) => void;
  showRaw: (event: SessionEvent, result: SessionEvent | undefined) => void;
}

const BUTTON =
  'grid size-6 place-items-center rounded-control text-soft hover:bg-sunken hover:text-ink pointer-coarse:size-11';

interface RowMenuProps {
  event: SessionEvent;
  result: SessionEvent | undefined;
  doings: RowDoings;
}

export function RowMenu({ event, result, doings }: RowMenuProps) {
  const [isMade, setMade] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const button = (
    <button
      type="button"
      data-inline=""
      data-row-menu=""
      aria-haspopup="menu"
      aria-label={`Actions of #${event.sequence}`}
      className={BUTTON}
      onClick={() => {
        if (isMade) return;
        setMade(true);
        setOpen(true);
      }}
    >
      <Ellipsis size={14} aria-hidden="true" />
    </button>
  );
  if (!isMade) return button;
  const text = contentText(event.content);
  return (
    <Menu isOpen={isOpen} onOpenChange={setOpen} trigger={button}>
      {text !== '' && (
        <MenuItem icon={<Copy {...ICON} />} onSelect={() => doings.copyText(text)}>
          Copy the text
        </MenuItem>
      )}
      <MenuItem icon={<Link2 {...ICON} />} onSelect={() => doings.copyLink(event.sequence)}>
        Copy a link to it
      </MenuItem>
      <MenuItem icon={<GitFork {...ICON} />} onSelect={() => doings.fork((result ?? event).sequence)}>
        Fork from here
      </MenuItem>
      <MenuItem icon={<Braces {...ICON} />} onSelect={() => doings.showRaw(event, result)}>
        Raw JSON
      </MenuItem>
    </Menu>
  );
}
