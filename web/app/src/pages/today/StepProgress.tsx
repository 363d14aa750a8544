/** How far a run of several steps is: a square for each step, and the same in words. */
import { type Session, useHintRefetch, useSederuntClient } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { stepProgressQueryKey } from './queryKeys.js';

const STEPS_MAX = 100;
const SQUARES_MAX = 12;

/** A run of steps is held by no worker: its steps are. */
function mayHaveSteps(session: Session): boolean {
  return session.session_type !== 'mixed' && session.claim === null && session.agent_slug === null;
}

function useSteps(session: Session) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const queryKey = stepProgressQueryKey(session.id);
  const { data } = useQuery({
    queryKey,
    queryFn: ({ signal }) =>
      client.get('/api/sessions/{id}/children', { path: { id: session.id }, query: { limit: STEPS_MAX }, signal }),
    enabled: mayHaveSteps(session),
    retry: false,
  });
  const steps = data?.items ?? [];
  useHintRefetch(
    (hint) =>
      hint.topic === 'sessions' &&
      hint.sessions.some((one) => one.id === session.id || steps.some((step) => step.id === one.id)),
    () => void queries.invalidateQueries({ queryKey }),
  );
  return steps;
}

export function StepProgress({ session }: { session: Session }) {
  const steps = useSteps(session);
  if (steps.length === 0) return null;
  const done = steps.filter((step) => step.status === 'completed').length;
  const words = `${done} of ${steps.length} ${steps.length === 1 ? 'step' : 'steps'} done`;
  return (
    <span className="flex items-center gap-2">
      {steps.length <= SQUARES_MAX && (
        <span aria-hidden="true" className="flex gap-0.5">
          {steps.map((step, at) => (
            <span
              key={step.id}
              className={`h-2 w-4 rounded-[2px] border ${at < done ? 'border-completed bg-completed' : 'border-edge'}`}
            />
          ))}
        </span>
      )}
      <span className="figures">{words}</span>
    </span>
  );
}
