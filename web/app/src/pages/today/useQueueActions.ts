/** What Today does with a line: hand a task over, and try a failed run again. */
import { isRefusal, newIdempotencyKey, useSederuntClient } from '@sederunt/react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { useLocation } from 'wouter';
import { useToast } from '../../components/ToastProvider.js';

const TODAY = ['today'] as const;

interface Act {
  id: string;
  title: string;
  key: string;
}

/** Each press is a call of its own; a second press while the first is under way does nothing. */
function useSessionStart(verb: string, start: (act: Act) => Promise<{ id: string }>) {
  const queries = useQueryClient();
  const { show } = useToast();
  const [, navigate] = useLocation();
  // Two presses of a key can come before the first has been drawn.
  const isUnderWay = useRef(false);
  const mutation = useMutation<{ id: string }, Error, Act>({
    mutationFn: start,
    onSuccess: ({ id }, { title }) => {
      const open = { verb: 'Open', run: () => navigate(`/sessions/${encodeURIComponent(id)}`) };
      show({ text: `${verb} ${title}.`, action: open });
    },
    onError: (error, { title }) => {
      const id = isRefusal(error) && error.requestId !== undefined ? ` (id ${error.requestId})` : '';
      show({ text: `${title}: ${error.message}${id}`, durationMs: 12_000 });
    },
    onSettled: () => {
      isUnderWay.current = false;
      return queries.invalidateQueries({ queryKey: TODAY });
    },
  });
  return {
    busyId: mutation.isPending ? mutation.variables.id : undefined,
    run: (id: string, title: string) => {
      if (isUnderWay.current) return;
      isUnderWay.current = true;
      mutation.mutate({ id, title, key: newIdempotencyKey() });
    },
  };
}

export function useTrigger() {
  const client = useSederuntClient();
  return useSessionStart('Handed over:', ({ id, key }) =>
    client.post('/api/tasks/{id}/trigger', { path: { id }, body: {}, idempotencyKey: key }),
  );
}

export function useRetry() {
  const client = useSederuntClient();
  return useSessionStart('Tried again:', ({ id, key }) =>
    client.post('/api/sessions/{id}/retry', { path: { id }, body: {}, idempotencyKey: key }),
  );
}
