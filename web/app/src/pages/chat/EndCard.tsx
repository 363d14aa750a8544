/** What stands under a sitting that has ended: what it was about, whether it helped, and how to go on. */
import { isRefusal, newIdempotencyKey, useSederuntClient } from '@sederunt/react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { ThumbsDown, ThumbsUp } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';
import { Button } from '../../components/Button.js';
import { useKeys } from '../../keyboard/KeyboardProvider.js';
import { HelpPlaces } from './CrisisAnswer.js';
import type { EndedSitting } from './chatRows.js';
import { readCrisisAnswer } from './crisisResources.js';
import { ratingsQueryKey } from './queryKeys.js';

const COMMENT_CHARS_MAX = 4_000;

type Label = 'positive' | 'negative' | 'skip';

const REASONS: Readonly<Record<string, string>> = {
  silence: 'Ended after a time of silence',
  expired: 'Ended after a time of silence',
  shutdown: 'Ended when the server stopped',
  memory_owner_changed: 'Ended because another person joined',
};

export function endSentence(ended: EndedSitting): string {
  const turns = ended.turnCount === 1 ? '1 turn' : `${ended.turnCount} turns`;
  return `${REASONS[ended.reason] ?? 'Ended'} · ${turns}`;
}

/** Whether the sitting was rated, here or elsewhere. */
function useRating(threadId: string, ended: EndedSitting) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = ratingsQueryKey(threadId);
  const ratings = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.get('/api/threads/{id}/ratings', { path: { id: threadId }, signal }),
    staleTime: 0,
  });
  const rate = useMutation({
    mutationFn: (feedback: Label) =>
      client.post('/api/threads/{id}/feedback', {
        path: { id: threadId },
        body: { feedback, source: 'web_end', modality: 'text' },
        idempotencyKey: newIdempotencyKey(),
      }),
    onSettled: () => queries.invalidateQueries({ queryKey }),
  });
  // It may have been rated before it ended. The two times come from one clock: the server's.
  const stored = ratings.data?.items.findLast((one) => Date.parse(one.recorded_at) >= Date.parse(ended.begunAt));
  const given = rate.isSuccess && rate.data.recorded ? rate.variables : undefined;
  const label = given ?? stored?.label;
  return {
    label: label as Label | undefined,
    isKnown: ratings.data !== undefined || ratings.isError,
    isElsewhere: rate.isSuccess && !rate.data.recorded,
    isGivenHere: given !== undefined,
    error: rate.error,
    rate: (given: Label) => {
      if (!rate.isPending && label === undefined) rate.mutate(given);
    },
  };
}

function FollowUp({ threadId, label }: { threadId: string; label: Label }) {
  const client = useSederuntClient();
  const id = useId();
  const [comment, setComment] = useState('');
  const send = useMutation({
    mutationFn: (words: string) =>
      client.post('/api/threads/{id}/feedback', {
        path: { id: threadId },
        body: { feedback: label, source: 'web_end', modality: 'text', comment: words },
        idempotencyKey: newIdempotencyKey(),
      }),
  });
  const outcome = send.data?.follow_up;
  const isTaken = outcome?.status === 'accepted';
  const asksMore = outcome?.status === 'clarification_required' ? (outcome.prompt ?? 'Say a little more.') : undefined;
  const reason = outcome?.reason ?? undefined;
  const complaint =
    outcome?.status === 'blocked'
      ? `Not stored: it contains a secret${reason === undefined ? '' : ` (${reason})`}. Take it out.`
      : outcome?.status === 'refused'
        ? `Not stored: ${reason ?? 'the server refused it'}.`
        : send.error?.message;
  if (isTaken) return <p role="status">Thank you. It is noted, and agents learn from it.</p>;
  return (
    <form
      className="grid gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (comment.trim() !== '' && !send.isPending) send.mutate(comment.trim());
      }}
    >
      <label htmlFor={id} className="text-row">
        {asksMore ?? 'Anything to add?'}
      </label>
      <div className="flex flex-wrap items-end gap-2">
        <textarea
          id={id}
          rows={2}
          dir="auto"
          maxLength={COMMENT_CHARS_MAX}
          value={comment}
          onChange={(event) => setComment(event.target.value)}
          aria-describedby={complaint === undefined ? undefined : `${id}-complaint`}
          aria-invalid={complaint !== undefined}
          className="min-h-8 min-w-48 flex-1 rounded-control border border-edge bg-paper px-2 py-1"
        />
        <Button type="submit" isBusy={send.isPending} disabled={comment.trim() === ''}>
          Add
        </Button>
      </div>
      {complaint !== undefined && (
        <p id={`${id}-complaint`} role="alert" className="text-row text-error">
          {complaint}
        </p>
      )}
    </form>
  );
}

const LABEL_WORDS: Readonly<Record<Label, string>> = {
  positive: 'You said: it was good.',
  negative: 'You said: it was not good.',
  skip: 'Not rated.',
};

function Rating({ threadId, ended, isIncognito }: { threadId: string; ended: EndedSitting; isIncognito: boolean }) {
  const rating = useRating(threadId, ended);
  const isOpen = rating.isKnown && rating.label === undefined && !rating.isElsewhere;
  useKeys(
    isOpen
      ? {
          'thumb-up': () => rating.rate('positive'),
          'thumb-down': () => rating.rate('negative'),
          'skip-rating': () => rating.rate('skip'),
        }
      : {},
  );
  if (!rating.isKnown) return null;
  if (!isOpen) {
    const { label } = rating;
    return (
      <div className="grid gap-2">
        <p role="status" className="text-row text-soft">
          {rating.isElsewhere && 'This sitting was rated already. '}
          {label !== undefined && LABEL_WORDS[label]}
        </p>
        {rating.isGivenHere && label !== undefined && label !== 'skip' && !isIncognito && (
          <FollowUp threadId={threadId} label={label} />
        )}
      </div>
    );
  }
  return (
    <div className="grid gap-2">
      <fieldset className="flex flex-wrap items-center gap-2">
        <legend className="float-left mr-2">How was it?</legend>
        <Button shortcut="thumb-up" onClick={() => rating.rate('positive')}>
          <ThumbsUp size={14} aria-hidden="true" /> Good
        </Button>
        <Button shortcut="thumb-down" onClick={() => rating.rate('negative')}>
          <ThumbsDown size={14} aria-hidden="true" /> Not good
        </Button>
        <Button kind="ghost" shortcut="skip-rating" onClick={() => rating.rate('skip')}>
          Skip
        </Button>
      </fieldset>
      {rating.error !== null && (
        <p role="alert" className="text-row text-error">
          {rating.error.message}{' '}
          {isRefusal(rating.error) && rating.error.requestId !== undefined && `(id ${rating.error.requestId})`}
        </p>
      )}
    </div>
  );
}

export interface EndCardProps {
  threadId: string;
  ended: EndedSitting;
  isIncognito: boolean;
  /** The answer to words of distress: then no rating is asked for. */
  crisisText: string | undefined;
  /** The person has just ended it here: the card takes the focus. */
  takesFocus: boolean;
  onContinue: () => void;
  onNew: () => void;
}

export function EndCard({ threadId, ended, isIncognito, crisisText, takesFocus, onContinue, onNew }: EndCardProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (takesFocus) heading.current?.focus();
  }, [takesFocus]);
  return (
    <section aria-label="End of the sitting" className="grid gap-3 rounded-card border border-line bg-raised p-4">
      <h2 ref={heading} tabIndex={-1} className="text-row font-semibold outline-none">
        {endSentence(ended)}
      </h2>
      {crisisText !== undefined && <HelpPlaces places={readCrisisAnswer(crisisText).places} />}
      {ended.summary !== undefined && <p dir="auto">{ended.summary}</p>}
      {ended.openLoops.length > 0 && (
        <div>
          <h3 className="text-row text-soft">Open points</h3>
          <ul className="list-disc pl-5">
            {ended.openLoops.map((loop) => (
              <li key={loop} dir="auto">
                {loop}
              </li>
            ))}
          </ul>
        </div>
      )}
      {crisisText === undefined && <Rating threadId={threadId} ended={ended} isIncognito={isIncognito} />}
      <div className="flex flex-wrap gap-2">
        <Button onClick={onContinue}>Continue this</Button>
        <Button shortcut="new-chat" onClick={onNew}>
          New chat
        </Button>
      </div>
    </section>
  );
}
