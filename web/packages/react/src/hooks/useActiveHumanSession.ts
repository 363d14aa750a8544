/** What the person works on: the running human session, and the calls that start, stop and switch it. */
import { type QueryClient, type UseMutationResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import type { ActiveWork, Session, Task } from '../api/types.js';
import type { SederuntClient } from '../client/client.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { isRefusal, passingRetryDelay, retryPassing, SederuntRefusal } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { activeHumanSessionQueryKey } from '../vocabulary/queryKeys.js';
import { useHintRefetch } from './useHints.js';

const STALE_MS = 15_000;
const NOTHING: ActiveWork = { session: null };

/** The task to work on. With more than its id, the page shows it before the server has answered. */
export type TaskChoice = Pick<Task, 'id'> & Partial<Pick<Task, 'name'>>;

interface WorkBefore {
  before: ActiveWork | undefined;
}

export interface ActiveHumanSession {
  session: Session | null;
  task: Task | null;
  isLoading: boolean;
  error: Error | null;
  /** Starts to work on a task. The session of another task is completed. */
  startMutation: UseMutationResult<ActiveWork, Error, TaskChoice, WorkBefore>;
  /** Stops working. */
  stopMutation: UseMutationResult<void, Error, void, WorkBefore>;
  /** Goes on with another task, in a session of its own. */
  switchMutation: UseMutationResult<ActiveWork, Error, TaskChoice, WorkBefore>;
  /** Notes what the person did. Resolves once the server has it; refetches nothing. */
  recordMarkerAsync: (text: string) => Promise<void>;
}

/** How the work looks before the server has answered: the fields that pages show. The next read replaces it. */
function supposedWork(choice: TaskChoice, before: ActiveWork | undefined): ActiveWork {
  const now = new Date().toISOString();
  const title = choice.name ?? before?.task?.name ?? choice.id;
  const supposed = { id: '', title, status: 'running', task_id: choice.id, created_at: now, started_at: now };
  return { session: supposed as Session, task: { id: choice.id, name: title } as Task };
}

async function change(queries: QueryClient, to: (before: ActiveWork | undefined) => ActiveWork): Promise<WorkBefore> {
  await queries.cancelQueries({ queryKey: activeHumanSessionQueryKey });
  const before = queries.getQueryData<ActiveWork>(activeHumanSessionQueryKey);
  queries.setQueryData<ActiveWork>(activeHumanSessionQueryKey, to(before));
  return { before };
}

function useStart(client: SederuntClient, queries: QueryClient) {
  return useMutation<ActiveWork, Error, TaskChoice, WorkBefore>({
    mutationFn: (choice) =>
      client.post('/api/sessions/human/start', {
        body: { task_id: choice.id },
        idempotencyKey: newIdempotencyKey(),
      }),
    onMutate: (choice) => change(queries, (before) => supposedWork(choice, before)),
    onSuccess: (work) => queries.setQueryData<ActiveWork>(activeHumanSessionQueryKey, work),
    onError: (_error, _choice, context) => queries.setQueryData(activeHumanSessionQueryKey, context?.before),
    onSettled: () => queries.invalidateQueries({ queryKey: activeHumanSessionQueryKey }),
  });
}

function useStop(client: SederuntClient, queries: QueryClient, sessionId: string | undefined) {
  return useMutation<void, Error, void, WorkBefore>({
    mutationFn: async () => {
      if (sessionId === undefined) return;
      await client.post('/api/sessions/human/stop', {
        body: { session_id: sessionId },
        idempotencyKey: newIdempotencyKey(),
      });
    },
    onMutate: () => change(queries, () => NOTHING),
    onError: (_error, _nothing, context) => queries.setQueryData(activeHumanSessionQueryKey, context?.before),
    onSettled: () => queries.invalidateQueries({ queryKey: activeHumanSessionQueryKey }),
  });
}

export function useActiveHumanSession(): ActiveHumanSession {
  const { client } = useSederunt();
  const queries = useQueryClient();
  const query = useQuery<ActiveWork>({
    queryKey: activeHumanSessionQueryKey,
    queryFn: async ({ signal }) => {
      try {
        return await client.get('/api/sessions/human/active', { signal });
      } catch (error) {
        // Signed out, the person works on nothing.
        if (isRefusal(error) && error.status === 401) return NOTHING;
        throw error;
      }
    },
    staleTime: STALE_MS,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
  });
  // A session that the server has not confirmed has no id yet.
  const sessionId = query.data?.session?.id || undefined;

  useHintRefetch(
    (hint) => hint.topic === 'sessions' && hint.sessions.some((one) => one.id === sessionId && one.row_changed),
    () => void queries.invalidateQueries({ queryKey: activeHumanSessionQueryKey }),
  );

  const recordMarkerAsync = useCallback(
    async (text: string) => {
      if (sessionId === undefined) {
        const message = 'Nothing was marked: no session runs. Say what you are working on first.';
        throw new SederuntRefusal({ status: 0, code: 'no_session', message });
      }
      await client.post('/api/sessions/{id}/events', {
        path: { id: sessionId },
        body: { events: [{ type: 'human.marker', content: text, metadata: { at: new Date().toISOString() } }] },
        idempotencyKey: newIdempotencyKey(),
      });
    },
    [client, sessionId],
  );

  return {
    session: query.data?.session ?? null,
    task: query.data?.task ?? null,
    isLoading: query.isLoading,
    error: query.error,
    startMutation: useStart(client, queries),
    stopMutation: useStop(client, queries, sessionId),
    switchMutation: useStart(client, queries),
    recordMarkerAsync,
  };
}
