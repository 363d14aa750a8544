/** One strip of facts about a run: how long, how much, by whom, about what. */
import { durationText, isRefusal, isTerminalStatus, type Session, useSederuntClient } from '@sederunt/react';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { useNow } from '../../components/clock.js';
import { TimeAgo } from '../../components/TimeAgo.js';
import { sessionQueryKey } from '../../data/queryKeys.js';
import { readSession } from '../../data/readSession.js';
import { sessionAddress, sessionName } from '../sessions/sessionName.js';
import { useTaskNames } from '../sessions/useNames.js';

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function figure(usage: unknown, key: string): number {
  const value = isRecord(usage) ? usage[key] : undefined;
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : 0;
}

/** 950, 12.4k, 3.1M */
export function shortCount(count: number): string {
  if (count < 1_000) return String(count);
  const [value, unit] = count < 999_950 ? [count / 1_000, 'k'] : [count / 1_000_000, 'M'];
  return `${value.toFixed(1).replace(/\.0$/, '')}${unit}`;
}

export function usageTexts(usage: unknown): readonly string[] {
  const tokens = figure(usage, 'input_tokens') + figure(usage, 'output_tokens');
  const micros = figure(usage, 'cost_micros');
  const cost = micros / 1_000_000;
  return [
    ...(tokens > 0 ? [`${shortCount(tokens)} tokens`] : []),
    ...(micros > 0 ? [`${cost < 0.01 ? cost.toFixed(4) : cost.toFixed(3)} $`] : []),
  ];
}

function Took({ row }: { row: Session }) {
  const now = useNow();
  const begun = Date.parse(row.started_at ?? '');
  if (Number.isNaN(begun)) return null;
  const isOver = isTerminalStatus(row.status);
  const ended = Date.parse(row.completed_at ?? '');
  if (isOver && Number.isNaN(ended)) return null;
  const passed = durationText((isOver ? ended : now) - begun);
  return <Fact>{isOver ? `took ${passed}` : `since ${passed}`}</Fact>;
}

function Fact({ children }: { children: ReactNode }) {
  return <li className="wrap-anywhere">{children}</li>;
}

/** The session that this one is a step of. It may be gone: then the step stays. */
function ParentFact({ id }: { id: string }) {
  const client = useSederuntClient();
  const { data, error } = useQuery<Session>({
    queryKey: sessionQueryKey(id),
    queryFn: ({ signal }) => readSession(client, id, signal),
  });
  if (isRefusal(error) && (error.status === 404 || error.status === 403)) {
    return <Fact>a step of a session that is gone or not yours to see</Fact>;
  }
  return (
    <Fact>
      a step of{' '}
      <Link href={`${sessionAddress(id)}?tab=steps`} dir="auto" className="text-accent underline">
        {sessionName({ id, title: data?.title })}
      </Link>
    </Fact>
  );
}

export function FactsStrip({ row }: { row: Session }) {
  const tasks = useTaskNames();
  const retried = row.retry_of;
  return (
    <>
      <ul aria-label="Facts" className="figures flex flex-wrap gap-x-4 gap-y-1 text-row text-soft">
        <Took row={row} />
        {usageTexts(row.usage).map((text) => (
          <Fact key={text}>{text}</Fact>
        ))}
        {row.agent_slug && <Fact>agent {row.agent_slug}</Fact>}
        {row.user_id && <Fact>held by {row.user_id}</Fact>}
        {row.task_id && <Fact>task {tasks.get(row.task_id) ?? row.task_id}</Fact>}
        {row.entity_id && <Fact>entity {row.entity_id}</Fact>}
        {row.parent_id && <ParentFact id={row.parent_id} />}
        {retried && (
          <Fact>
            retry of{' '}
            <Link href={sessionAddress(retried)} className="text-accent underline">
              an earlier run
            </Link>
          </Fact>
        )}
        <Fact>
          {row.started_at ? 'started ' : 'opened '}
          <TimeAgo at={row.started_at ?? row.created_at} />
        </Fact>
      </ul>
      {row.error_message && (
        <p dir="auto" className="rounded-control bg-removed px-3 py-1 text-row wrap-anywhere">
          <span aria-hidden="true">✕ </span>
          {row.error_message}
          {row.end_reason && <span className="text-soft"> ({row.end_reason})</span>}
        </p>
      )}
    </>
  );
}
