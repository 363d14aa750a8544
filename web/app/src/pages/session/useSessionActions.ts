/** What can be done with a session: stop, retry, fork, hide, delete, export. Each says what came of it. */
import { isRefusal, newIdempotencyKey, type Session, sessionEventsQueryKey, useSederuntClient } from '@sederunt/react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { useToast } from '../../components/ToastProvider.js';
import { sessionListQueryKey, sessionQueryKey } from '../../data/queryKeys.js';
import { listAddress } from '../sessions/listAddress.js';
import { sessionAddress, sessionName } from '../sessions/sessionName.js';

export type ExportFormat = 'md' | 'txt' | 'json';

const TERMINAL_FOR_RETRY = ['completed', 'failed', 'expired', 'abandoned'];
const STOPPABLE = ['pending', 'running', 'waiting_human', 'awaiting_tool'];

/** Talk has turns that end one by one; everything else is a run that ends as a whole. */
export function isTalk(row: Session): boolean {
  return row.session_type === 'mixed';
}

export function canStop(row: Session): boolean {
  return STOPPABLE.includes(row.status) && !row.stop_requested;
}

export function canRetry(row: Session): boolean {
  return row.session_type === 'agent' && TERMINAL_FOR_RETRY.includes(row.status);
}

function refusalText(error: Error): string {
  const id = isRefusal(error) && error.requestId !== undefined ? ` (id ${error.requestId})` : '';
  return `${error.message}${id}`;
}

/** A name that a file can have on every system. */
export function fileName(title: string, ending: string): string {
  const plain = title
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 80);
  return `${plain === '' ? 'session' : plain}.${ending}`;
}

export function useSessionActions(row: Session) {
  const client = useSederuntClient();
  const queries = useQueryClient();
  const toast = useToast();
  const [, navigate] = useLocation();
  const path = { id: row.id };
  const onError = (error: Error) => void toast.show({ text: refusalText(error) });
  const readAgain = () => {
    void queries.invalidateQueries({ queryKey: sessionQueryKey(row.id), exact: true });
    void queries.invalidateQueries({ queryKey: sessionListQueryKey() });
  };
  const openCopy = (text: string) => (copy: Session) => {
    void queries.invalidateQueries({ queryKey: sessionListQueryKey() });
    navigate(sessionAddress(copy.id));
    toast.show({ text });
  };

  const stop = useMutation<Session, Error, string>({
    mutationFn: (idempotencyKey) => client.post('/api/sessions/{id}/stop', { path, body: {}, idempotencyKey }),
    onSuccess: (stopped) => {
      queries.setQueryData(sessionQueryKey(row.id), stopped);
      toast.show({ text: isTalk(row) ? 'Stopped this turn.' : 'Asked it to stop.' });
    },
    onError,
    onSettled: readAgain,
  });
  const retry = useMutation<Session, Error, string>({
    mutationFn: (idempotencyKey) => client.post('/api/sessions/{id}/retry', { path, body: {}, idempotencyKey }),
    onSuccess: openCopy('Started again. This is the new run.'),
    onError,
  });
  const fork = useMutation<Session, Error, { at: number; idempotencyKey: string }>({
    mutationFn: ({ at, idempotencyKey }) =>
      client.post('/api/sessions/{id}/fork', { path, body: { at_sequence: at }, idempotencyKey }),
    onSuccess: (copy, { at }) => openCopy(`Forked at #${at}. This is the copy.`)(copy),
    onError,
  });
  const hide = useMutation<Session, Error, { isHidden: boolean; idempotencyKey: string }>({
    mutationFn: ({ isHidden, idempotencyKey }) =>
      client.patch('/api/sessions/{id}', { path, body: { inactive: isHidden }, idempotencyKey }),
    onSuccess: (changed, { isHidden }) => {
      queries.setQueryData(sessionQueryKey(row.id), changed);
      const undo = {
        verb: 'Undo',
        run: () => hide.mutate({ isHidden: !isHidden, idempotencyKey: newIdempotencyKey() }),
      };
      toast.show({ text: isHidden ? 'Hidden from lists.' : 'Shown in lists again.', action: undo });
    },
    onError,
    onSettled: readAgain,
  });
  const remove = useMutation<unknown, Error, string>({
    mutationFn: (idempotencyKey) => client.delete('/api/sessions/{id}', { path, idempotencyKey }),
    onSuccess: () => {
      toast.show({ text: `Deleted “${sessionName(row)}”.` });
      navigate(listAddress());
      queries.removeQueries({ queryKey: sessionQueryKey(row.id) });
      queries.removeQueries({ queryKey: sessionEventsQueryKey(row.id) });
      void queries.invalidateQueries({ queryKey: sessionListQueryKey() });
    },
    onError,
  });
  const download = useMutation<void, Error, ExportFormat>({
    mutationFn: async (format) => {
      const response = await client.open(`/api/sessions/${encodeURIComponent(row.id)}/export`, {
        query: { format, ...(format === 'json' ? {} : { all: true }) },
      });
      saveFile(await response.blob(), fileName(sessionName(row), format));
    },
    onError,
  });

  return {
    stop: () => stop.mutate(newIdempotencyKey()),
    retry: () => retry.mutate(newIdempotencyKey()),
    fork: (at: number) => fork.mutate({ at, idempotencyKey: newIdempotencyKey() }),
    hide: (isHidden: boolean) => hide.mutate({ isHidden, idempotencyKey: newIdempotencyKey() }),
    remove: () => remove.mutate(newIdempotencyKey()),
    download: (format: ExportFormat) => download.mutate(format),
    isStopping: stop.isPending,
    isRetrying: retry.isPending,
    isForking: fork.isPending,
  };
}

export type SessionActions = ReturnType<typeof useSessionActions>;

/** Hands a file to the browser's downloads. */
function saveFile(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // The download reads the address after the click.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
