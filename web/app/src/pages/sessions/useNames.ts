/** The names of agents and tasks, for the filters and for the rows that hold only their ids. */
import { useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { agentNamesQueryKey, taskNamesQueryKey } from '../../data/queryKeys.js';

const NAMES_MAX = 200;
const STALE_MS = 5 * 60_000;
const NONE: ReadonlyMap<string, string> = new Map();

/** By slug, which is what sessions name their agent by. */
export function useAgentNames(): ReadonlyMap<string, string> {
  const client = useSederuntClient();
  const { data } = useQuery({
    queryKey: agentNamesQueryKey,
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/agents', { query: { limit: NAMES_MAX }, signal });
      return new Map(page.items.map((agent) => [agent.slug, agent.name]));
    },
    staleTime: STALE_MS,
  });
  return data ?? NONE;
}

/** By id. */
export function useTaskNames(): ReadonlyMap<string, string> {
  const client = useSederuntClient();
  const { data } = useQuery({
    queryKey: taskNamesQueryKey,
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/tasks', { query: { limit: NAMES_MAX }, signal });
      return new Map(page.items.map((task) => [task.id, task.name]));
    },
    staleTime: STALE_MS,
  });
  return data ?? NONE;
}
