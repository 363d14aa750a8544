/** What a run came to: its result, and which fields of which entity were written. */
import { type Approval, isTerminalStatus, type Session, type Task, useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { Section } from '../../components/Section.js';
import { Skeleton } from '../../components/Skeleton.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { sessionApprovalsQueryKey, taskQueryKey } from '../../data/queryKeys.js';
import { JsonText } from './JsonText.js';
import { ResultValue, Value } from './ResultValue.js';
import { type WrittenField, writtenFields } from './writtenFields.js';

function WrittenTable({ fields }: { fields: readonly WrittenField[] }) {
  return (
    <div className="overflow-x-auto rounded-card border border-line bg-raised">
      <table className="w-full text-row">
        <thead>
          <tr className="border-b border-line text-left text-soft">
            <th className="px-3 py-2 font-semibold">entity</th>
            <th className="px-3 py-2 font-semibold">field</th>
            <th className="px-3 py-2 font-semibold">value</th>
            <th className="px-3 py-2 font-semibold">decided</th>
          </tr>
        </thead>
        <tbody>
          {fields.map((field) => (
            <tr key={`${field.entity} ${field.name}`} className="border-b border-line align-top last:border-0">
              <td className="px-3 py-2 wrap-anywhere">{field.entity}</td>
              <td className="px-3 py-2 wrap-anywhere">{field.name}</td>
              <td className="px-3 py-2">
                <Value value={field.value} />
              </td>
              <td className="px-3 py-2 text-soft">
                {field.decidedBy === undefined ? 'without a decision' : (field.decidedBy ?? 'approved')}
                {field.at !== undefined && (
                  <>
                    , <TimeAgo at={field.at} />
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function ResultTab({ row }: { row: Session }) {
  const client = useSederuntClient();
  const approvals = useQuery<readonly Approval[]>({
    queryKey: sessionApprovalsQueryKey(row.id),
    queryFn: async ({ signal }) => {
      const page = await client.get('/api/approvals', { query: { session_id: row.id, limit: 100 }, signal });
      return page.items;
    },
    staleTime: 0,
  });
  const taskId = row.task_id ?? '';
  const task = useQuery<Task>({
    queryKey: taskQueryKey(taskId),
    queryFn: ({ signal }) => client.get('/api/tasks/{id}', { path: { id: taskId }, signal }),
    enabled: taskId !== '',
  });
  const written = writtenFields(row, approvals.data ?? [], task.data);
  const hasResult = row.result !== null && row.result !== undefined;
  const isOver = isTerminalStatus(row.status);
  return (
    <div className="grid min-w-0 gap-4">
      <Section title={hasResult && !isOver ? 'Result, not yet accepted' : 'Result'}>
        {hasResult ? (
          <ResultValue result={row.result} />
        ) : (
          <EmptyState>
            {isOver ? 'This session ended without a result.' : 'No result yet. It appears here when the run has one.'}
          </EmptyState>
        )}
      </Section>
      {approvals.isLoading && <Skeleton rows={2} />}
      {approvals.error !== null && <ErrorState error={approvals.error} onRetry={() => void approvals.refetch()} />}
      {written.length > 0 && (
        <Section title="Written to" count={written.length}>
          <WrittenTable fields={written} />
        </Section>
      )}
      {hasResult && (
        <Section title="As JSON">
          <JsonText value={row.result} />
        </Section>
      )}
    </div>
  );
}
