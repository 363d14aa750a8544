/** The share links of a session: make one, copy it once, and end those that are there. */
import { isRefusal, newIdempotencyKey, useSederuntClient } from '@sederunt/react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../components/Button.js';
import { CopyButton } from '../../components/CopyButton.js';
import { Dialog } from '../../components/Dialog.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Field } from '../../components/Field.js';
import { Skeleton } from '../../components/Skeleton.js';
import { sharesQueryKey } from '../../data/queryKeys.js';

const DAY_S = 86_400;
const EXPIRIES = [
  ['An hour', 3_600],
  ['A day', DAY_S],
  ['A week', 7 * DAY_S],
  ['30 days', 30 * DAY_S],
  ['A year', 365 * DAY_S],
] as const;

type Access = 'read' | 'submit';

const ACCESS_WORDS: Record<Access, string> = {
  read: 'Read: title, status, messages and result',
  submit: 'Read, and hand in a form',
};

interface Link {
  id: string;
  access: Access;
  created_by?: string | null;
  expires_at: string;
  revoked_at?: string | null;
}

/** The page of this app that shows the session to holders of the link. */
export function shareAddress(sessionId: string, token: string): string {
  return `${location.origin}/shared/${encodeURIComponent(sessionId)}?share=${encodeURIComponent(token)}`;
}

function isOpenLink(link: Link): boolean {
  return (link.revoked_at ?? null) === null && Date.parse(link.expires_at) > Date.now();
}

function LinkRow({ link, onRevoke, isBusy }: { link: Link; onRevoke: () => void; isBusy: boolean }) {
  const expires = new Date(link.expires_at);
  return (
    <li className="flex items-center gap-3 px-3 py-1 text-row">
      <span className="min-w-0 flex-1">
        {link.access === 'read' ? 'Read' : 'Read and hand in'}
        {link.created_by !== null && link.created_by !== undefined && (
          <span className="text-soft" dir="auto">
            {' '}
            by {link.created_by}
          </span>
        )}
      </span>
      <span className="text-soft">
        ends{' '}
        <time dateTime={link.expires_at}>
          {expires.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}
        </time>
      </span>
      <Button kind="danger" isBusy={isBusy} onClick={onRevoke}>
        Revoke
      </Button>
    </li>
  );
}

/** The secret is on screen until the dialog is closed, and nowhere else. */
function NewLink({ address }: { address: string }) {
  return (
    <div role="status" className="grid gap-1 rounded-card bg-sunken p-3">
      <p className="text-row">Copy the link now. It is not shown again.</p>
      <div className="flex items-center gap-2">
        <input
          readOnly
          aria-label="The new link"
          value={address}
          onFocus={(event) => event.target.select()}
          className="h-7 min-w-0 flex-1 rounded-control border border-edge bg-paper px-2 font-mono text-meta"
        />
        <CopyButton text={address} label="Copy the link" />
      </div>
    </div>
  );
}

function ShareForm({ sessionId }: { sessionId: string }) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = sharesQueryKey(sessionId);
  const [access, setAccess] = useState<Access>('read');
  const [expiry, setExpiry] = useState(7 * DAY_S);
  const links = useQuery<readonly Link[]>({
    queryKey,
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/shares', { query: { session_id: sessionId, limit: 100 }, signal });
      return page.items as readonly Link[];
    },
    staleTime: 0,
  });
  const readAgain = () => void queries.invalidateQueries({ queryKey, exact: true });
  const make = useMutation({
    mutationFn: (idempotencyKey: string) =>
      client.post('/api/sessions/{id}/share', {
        path: { id: sessionId },
        body: { access, expires_in: expiry },
        idempotencyKey,
      }),
    onSuccess: readAgain,
  });
  const revoke = useMutation({
    mutationFn: ({ id, idempotencyKey }: { id: string; idempotencyKey: string }) =>
      client.delete('/api/shares/{id}', { path: { id }, idempotencyKey }),
    onSettled: readAgain,
  });
  const token = make.data?.token ?? null;
  const open = (links.data ?? []).filter(isOpenLink);
  const refused = make.error ?? revoke.error;
  return (
    <>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (!make.isPending) make.mutate(newIdempotencyKey());
        }}
      >
        <Field label="Who has the link may">
          {(control) => (
            <select {...control} value={access} onChange={(event) => setAccess(event.target.value as Access)}>
              {Object.entries(ACCESS_WORDS).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="It ends after" error={isRefusal(refused) ? refused.message : undefined}>
          {(control) => (
            <select {...control} value={expiry} onChange={(event) => setExpiry(Number(event.target.value))}>
              {EXPIRIES.map(([words, seconds]) => (
                <option key={seconds} value={seconds}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        <div>
          <Button kind="primary" type="submit" isBusy={make.isPending}>
            Make a link
          </Button>
        </div>
      </form>
      {token !== null && <NewLink address={shareAddress(sessionId, token)} />}
      <section aria-label="Links" className="grid gap-2">
        <h3 className="text-row font-semibold text-soft">Links that are open</h3>
        {links.isLoading && <Skeleton rows={2} />}
        {links.error !== null && <ErrorState error={links.error} onRetry={() => void links.refetch()} />}
        {links.data !== undefined && open.length === 0 && <p className="text-row text-soft">None.</p>}
        {open.length > 0 && (
          <ul className="divide-y divide-line rounded-card border border-line">
            {open.map((link) => (
              <LinkRow
                key={link.id}
                link={link}
                isBusy={revoke.isPending && revoke.variables.id === link.id}
                onRevoke={() => revoke.mutate({ id: link.id, idempotencyKey: newIdempotencyKey() })}
              />
            ))}
          </ul>
        )}
      </section>
    </>
  );
}

interface ShareDialogProps {
  sessionId: string;
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
}

export function ShareDialog({ sessionId, isOpen, onOpenChange }: ShareDialogProps) {
  return (
    <Dialog
      isOpen={isOpen}
      onOpenChange={onOpenChange}
      title="Share this session"
      description="A link shows this session to people who have no account here. Ending it closes it within five seconds."
    >
      {isOpen && <ShareForm sessionId={sessionId} />}
    </Dialog>
  );
}
