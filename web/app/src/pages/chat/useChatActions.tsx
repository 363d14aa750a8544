/** What can be done with a chat as a whole: rename, hide, delete. Its menu items, and the dialogs that some of them open. */
import { newIdempotencyKey, type Session, useSederuntClient } from '@sederunt/react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Eye, EyeOff, Link2, ListTree, Pencil, Trash2 } from 'lucide-react';
import { type ReactNode, type SubmitEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../../components/Button.js';
import { ConfirmDialog } from '../../components/ConfirmDialog.js';
import { Dialog } from '../../components/Dialog.js';
import { Field } from '../../components/Field.js';
import { MenuItem, MenuSeparator } from '../../components/Menu.js';
import { useToast } from '../../components/ToastProvider.js';
import { useCopyText } from '../../components/useCopyText.js';
import { sessionListQueryKey, sessionQueryKey } from '../../data/queryKeys.js';
import { chatTitle, isIncognito } from './chatSession.js';
import { chatPath } from './threadId.js';

const TITLE_CHARS_MAX = 200;

function RenameForm({ session, onDone }: { session: Session; onDone: (title: string | null) => Promise<unknown> }) {
  const [title, setTitle] = useState(session.title ?? '');
  const [error, setError] = useState<string | null>(null);
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await onDone(title.trim() === '' ? null : title.trim());
    } catch (refusal) {
      setError(refusal instanceof Error ? refusal.message : String(refusal));
    }
  };
  return (
    <form className="grid gap-4" onSubmit={(event) => void save(event)}>
      <Field label="Title" hint="Without one, the chat is called by its first message." error={error}>
        {(props) => (
          <input
            {...props}
            dir="auto"
            maxLength={TITLE_CHARS_MAX}
            value={title}
            onChange={(event) => setTitle(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" kind="primary">
        Rename
      </Button>
    </form>
  );
}

export interface ChatActions {
  /** For a menu. */
  items: ReactNode;
  /** Stands once on the page, beside the menu. */
  dialogs: ReactNode;
}

const ICON = { size: 14, 'aria-hidden': true } as const;

export function useChatActions(session: Session | undefined, onGone: (id: string) => void): ChatActions {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const toast = useToast();
  const [, navigate] = useLocation();
  const copyText = useCopyText();
  const [open, setOpen] = useState<'rename' | 'delete' | null>(null);

  const patch = useMutation({
    mutationFn: ({ id, body }: { id: string; body: { title?: string | null; inactive?: boolean } }) =>
      client.patch('/api/sessions/{id}', { path: { id }, body, idempotencyKey: newIdempotencyKey() }),
    onSuccess: (changed) => {
      queries.setQueryData(sessionQueryKey(changed.id), changed);
      return queries.invalidateQueries({ queryKey: sessionListQueryKey() });
    },
  });
  const remove = useMutation({
    mutationFn: (id: string) =>
      client.delete('/api/sessions/{id}', { path: { id }, idempotencyKey: newIdempotencyKey() }),
    onSuccess: (_, id) => {
      onGone(id);
      return queries.invalidateQueries({ queryKey: sessionListQueryKey() });
    },
    onError: (error) => toast.show({ text: `Could not delete: ${error.message}` }),
  });
  if (session === undefined) return { items: null, dialogs: null };

  const { id, inactive } = session;
  const setHidden = (hides: boolean) =>
    patch.mutate(
      { id, body: { inactive: hides } },
      {
        onSuccess: () =>
          toast.show({
            text: hides ? 'Hidden from the list.' : 'In the list again.',
            action: { verb: 'Undo', run: () => setHidden(!hides) },
          }),
        onError: (error) => toast.show({ text: `Could not change it: ${error.message}` }),
      },
    );
  const copyLink = async () => {
    if (await copyText(location.origin + chatPath(id))) toast.show({ text: 'Link copied.' });
  };
  const close = (isOpen: boolean) => setOpen(isOpen ? open : null);

  return {
    items: (
      <>
        <MenuItem icon={<Pencil {...ICON} />} onSelect={() => setOpen('rename')}>
          Rename…
        </MenuItem>
        {!isIncognito(session) && (
          <MenuItem icon={inactive ? <Eye {...ICON} /> : <EyeOff {...ICON} />} onSelect={() => setHidden(!inactive)}>
            {inactive ? 'Show in the list' : 'Hide from the list'}
          </MenuItem>
        )}
        <MenuItem icon={<Link2 {...ICON} />} onSelect={() => void copyLink()}>
          Copy link
        </MenuItem>
        <MenuItem icon={<ListTree {...ICON} />} onSelect={() => navigate(`/sessions/${encodeURIComponent(id)}`)}>
          Open its log
        </MenuItem>
        <MenuSeparator />
        <MenuItem icon={<Trash2 {...ICON} />} isDanger onSelect={() => setOpen('delete')}>
          Delete…
        </MenuItem>
      </>
    ),
    dialogs: (
      <>
        <Dialog isOpen={open === 'rename'} onOpenChange={close} title="Rename this chat">
          <RenameForm
            session={session}
            onDone={async (title) => {
              await patch.mutateAsync({ id, body: { title } });
              setOpen(null);
            }}
          />
        </Dialog>
        <ConfirmDialog
          isOpen={open === 'delete'}
          onOpenChange={close}
          title={`Delete “${chatTitle(session)}”?`}
          verb="Delete"
          onConfirm={() => remove.mutate(id)}
        >
          Its messages go, and it cannot be taken back. What agents remember from it stays until it is forgotten under
          Memory.
        </ConfirmDialog>
      </>
    ),
  };
}
