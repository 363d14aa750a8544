/** What stands beside the title of a session: its status, and what can be done with it. */
import type { Session } from '@sederunt/react';
import { Copy, Download, Ellipsis, Eye, EyeOff, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useMe } from '../../auth/SignInProvider.js';
import { Button } from '../../components/Button.js';
import { ConfirmDialog } from '../../components/ConfirmDialog.js';
import { IconButton } from '../../components/IconButton.js';
import { Menu, MenuItem, MenuSeparator } from '../../components/Menu.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { useCopyText } from '../../components/useCopyText.js';
import { usePageActions } from '../../palette/pageActions.js';
import { PageHeader } from '../../shell/pageFrame.js';
import { sessionName } from '../sessions/sessionName.js';
import { ShareDialog } from './ShareDialog.js';
import { canRetry, canStop, isTalk, type SessionActions } from './useSessionActions.js';

const ICON = { size: 14, 'aria-hidden': true } as const;

export function SessionHeader({ row, actions }: { row: Session; actions: SessionActions }) {
  const { can } = useMe();
  const copyText = useCopyText();
  const [asks, setAsks] = useState<'stop' | 'delete' | null>(null);
  const [isSharing, setSharing] = useState(false);
  const name = sessionName(row);
  const mayShare = can.includes('share') && !row.is_anonymous;
  const mayDelete = can.includes('delete');
  const stop = () => (isTalk(row) ? actions.stop() : setAsks('stop'));
  usePageActions([
    ...(canStop(row) ? [{ id: 'stop', words: `Stop “${name}”`, run: stop }] : []),
    { id: 'fork', words: `Fork “${name}”`, run: () => actions.fork(row.last_sequence) },
    ...(canRetry(row) ? [{ id: 'retry', words: `Retry “${name}”`, run: actions.retry }] : []),
    ...(mayShare ? [{ id: 'share', words: `Share “${name}”`, run: () => setSharing(true) }] : []),
  ]);
  return (
    <>
      <PageHeader>
        <StatusBadge status={row.status} />
        {row.stop_requested && row.status === 'running' && <span className="text-row text-soft">stopping…</span>}
        {row.inactive && <span className="text-row text-soft">hidden from lists</span>}
        <div className="ml-auto flex flex-wrap gap-2">
          {canStop(row) && (
            <Button isBusy={actions.isStopping} onClick={stop}>
              Stop
            </Button>
          )}
          {canRetry(row) && (
            <Button isBusy={actions.isRetrying} onClick={actions.retry}>
              Retry
            </Button>
          )}
          <Button isBusy={actions.isForking} onClick={() => actions.fork(row.last_sequence)}>
            Fork
          </Button>
          {mayShare && <Button onClick={() => setSharing(true)}>Share…</Button>}
          <Menu
            trigger={
              <IconButton label="More actions">
                <Ellipsis size={16} aria-hidden="true" />
              </IconButton>
            }
          >
            <MenuItem icon={<Download {...ICON} />} onSelect={() => actions.download('md')}>
              Export as Markdown
            </MenuItem>
            <MenuItem icon={<Download {...ICON} />} onSelect={() => actions.download('txt')}>
              Export as text
            </MenuItem>
            <MenuItem icon={<Download {...ICON} />} onSelect={() => actions.download('json')}>
              Export as JSON
            </MenuItem>
            <MenuSeparator />
            <MenuItem icon={<Copy {...ICON} />} onSelect={() => void copyText(row.id)}>
              Copy the id
            </MenuItem>
            <MenuItem
              icon={row.inactive ? <Eye {...ICON} /> : <EyeOff {...ICON} />}
              onSelect={() => actions.hide(!row.inactive)}
            >
              {row.inactive ? 'Show in lists' : 'Hide from lists'}
            </MenuItem>
            {mayDelete && (
              <MenuItem icon={<Trash2 {...ICON} />} isDanger onSelect={() => setAsks('delete')}>
                Delete…
              </MenuItem>
            )}
          </Menu>
        </div>
      </PageHeader>
      <ConfirmDialog
        isOpen={asks === 'stop'}
        onOpenChange={() => setAsks(null)}
        title={`Stop “${name}”?`}
        verb="Stop"
        onConfirm={actions.stop}
      >
        The run ends without a result. What it has done so far stays in its log, and it can be retried.
      </ConfirmDialog>
      <ConfirmDialog
        isOpen={asks === 'delete'}
        onOpenChange={() => setAsks(null)}
        title={`Delete “${name}”?`}
        verb="Delete"
        onConfirm={actions.remove}
      >
        All of its {row.last_sequence.toLocaleString()} events, its result and its share links go with it. This cannot
        be taken back.
      </ConfirmDialog>
      {mayShare && <ShareDialog sessionId={row.id} isOpen={isSharing} onOpenChange={setSharing} />}
    </>
  );
}
