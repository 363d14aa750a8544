/** The tasks that a person can work on, and a new one by its name alone. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { Task } from '../api/types.js';
import { newIdempotencyKey } from '../client/idempotency.js';
import { passingRetryDelay, retryPassing } from '../client/refusal.js';
import { useSederunt } from '../context.js';
import { activeTasksQueryKey } from '../vocabulary/queryKeys.js';

const STALE_MS = 30_000;
const SLUG_CHARS_MAX = 60;
const NO_TASKS: readonly Task[] = [];

/** A slug for a name in any script: what remains of it in Latin letters, and something that no other task has. */
export function slugFor(name: string, unique: string): string {
  const latin = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  const words = latin.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '');
  return [words.slice(0, SLUG_CHARS_MAX).replace(/-+$/, '') || 'task', unique.slice(0, 8)].join('-');
}

/** `assignedTo` narrows an owner's list to one person; members are shown their own tasks anyway. */
export function useActiveTasks(options: { assignedTo?: string | undefined; enabled?: boolean | undefined } = {}) {
  const { assignedTo, enabled = true } = options;
  const { client } = useSederunt();
  const query = useQuery<readonly Task[]>({
    queryKey: activeTasksQueryKey(assignedTo),
    queryFn: async ({ signal }) => {
      const query = assignedTo === undefined ? {} : { assigned_to: assignedTo };
      const page = await client.get('/api/tasks', { query: { status: 'active', limit: 200, ...query }, signal });
      return page.items;
    },
    staleTime: STALE_MS,
    enabled,
    retry: retryPassing,
    retryDelay: passingRetryDelay,
  });
  return { tasks: query.data ?? NO_TASKS, isLoading: query.isLoading, error: query.error };
}

/** Makes an active task by its name, assigned to `assignedTo` if that is given. */
export function useCreateTask(assignedTo?: string) {
  const { client } = useSederunt();
  const queries = useQueryClient();
  return useMutation<Task, Error, string>({
    mutationFn: (name) => {
      const key = newIdempotencyKey();
      const assignee = assignedTo === undefined ? {} : { assigned_to: assignedTo };
      return client.post('/api/tasks', {
        body: { name, slug: slugFor(name, key), status: 'active', ...assignee },
        idempotencyKey: key,
      });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: activeTasksQueryKey() }),
  });
}
