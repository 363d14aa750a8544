/** The steps of a run: a graph from left to right with the status in each step, and the same as a list beneath it. */
import { durationText, isTerminalStatus } from '@sederunt/react';
import { useMemo } from 'react';
import { Link, useLocation } from 'wouter';
import { useNow } from '../../components/clock.js';
import { EmptyState } from '../../components/EmptyState.js';
import { ErrorState } from '../../components/ErrorState.js';
import { List, ListRow } from '../../components/ListRow.js';
import { Section } from '../../components/Section.js';
import { Skeleton } from '../../components/Skeleton.js';
import { StatusBadge } from '../../components/StatusBadge.js';
import { useListCursor } from '../../keyboard/useListCursor.js';
import { sessionAddress } from '../sessions/sessionName.js';
import { type StepNode, type StepsGraph, stepsGraph } from './stepsGraph.js';
import { layOutSteps, NODE_HEIGHT, NODE_WIDTH, type Point } from './stepsLayout.js';
import { type ChildSession, useChildren } from './useChildren.js';

function tookText(session: ChildSession, now: number): string {
  const begun = Date.parse(session.started_at ?? '');
  const ended = Date.parse(session.completed_at ?? '');
  if (Number.isNaN(begun) || session.status === 'draft') return '';
  if (isTerminalStatus(session.status)) return Number.isNaN(ended) ? '' : durationText(ended - begun);
  return durationText(now - begun);
}

/** A line through the points, with straight ends and soft corners. */
function edgePath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (first === undefined || last === undefined) return '';
  const begun = `M${first.x},${first.y}`;
  if (rest.length === 0) return `${begun} L${last.x},${last.y}`;
  const curves = rest.map((point, at) => {
    const next = rest[at + 1];
    const end = next === undefined ? last : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q${point.x},${point.y} ${end.x},${end.y}`;
  });
  return [begun, ...curves].join(' ');
}

function StepBox({ node, corner, now }: { node: StepNode; corner: Point; now: number }) {
  const { session } = node;
  const style = { left: corner.x, top: corner.y, width: NODE_WIDTH, height: NODE_HEIGHT };
  const look = 'absolute flex flex-col justify-center gap-1 rounded-card border px-3 text-row';
  if (session === undefined) {
    return (
      <span style={style} className={`${look} border-dashed border-edge text-soft`}>
        <span dir="auto" className="truncate">
          {node.name}
        </span>
        <span className="text-meta">no such step</span>
      </span>
    );
  }
  return (
    <Link href={sessionAddress(session.id)} style={style} className={`${look} border-edge bg-raised hover:bg-sunken`}>
      <span dir="auto" title={node.name} className="truncate">
        {node.name}
      </span>
      <span className="flex items-center gap-2">
        <StatusBadge status={session.status} />
        <span className="figures truncate text-meta whitespace-nowrap text-soft">{tookText(session, now)}</span>
      </span>
    </Link>
  );
}

function Graph({ graph }: { graph: StepsGraph }) {
  const now = useNow();
  const shape = graph.nodes.map((node) => `${node.key}<${node.dependsOn.join()}`).join('|');
  // biome-ignore lint/correctness/useExhaustiveDependencies: a status that changes moves no step.
  const layout = useMemo(() => layOutSteps(graph), [shape]);
  const inCircle = new Set(graph.circle);
  return (
    <section
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
      tabIndex={0}
      aria-label="Graph of steps"
      className="overflow-auto rounded-card border border-line bg-paper"
    >
      <div className="relative" style={{ width: layout.width, height: layout.height }}>
        <svg width={layout.width} height={layout.height} className="absolute inset-0" aria-hidden="true">
          <defs>
            {/* biome-ignore lint/correctness/useUniqueElementIds: there is one graph on a page. */}
            <marker id="step-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M0,0 L8,4 L0,8 z" className="fill-edge" />
            </marker>
          </defs>
          {layout.edges.map(({ from, to, points }) => (
            <path
              key={`${from} ${to}`}
              d={edgePath(points)}
              markerEnd="url(#step-arrow)"
              strokeDasharray={inCircle.has(from) && inCircle.has(to) ? '4 4' : undefined}
              className="fill-none stroke-edge"
              strokeWidth={1.5}
            />
          ))}
        </svg>
        {graph.nodes.map((node) => {
          const corner = layout.corners.get(node.key);
          return corner === undefined ? null : <StepBox key={node.key} node={node} corner={corner} now={now} />;
        })}
      </div>
    </section>
  );
}

function StepsList({ graph }: { graph: StepsGraph }) {
  const now = useNow();
  const [, navigate] = useLocation();
  const names = new Map(graph.nodes.map((node) => [node.key, node.name]));
  const rows = graph.nodes.flatMap((node) => (node.session === undefined ? [] : [{ node, session: node.session }]));
  const cursor = useListCursor(
    rows.map(({ session }) => session.id),
    (id) => navigate(sessionAddress(id)),
  );
  return (
    <List label="Steps">
      {rows.map(({ node, session }) => (
        <ListRow
          key={session.id}
          id={session.id}
          href={sessionAddress(session.id)}
          cursor={cursor}
          lead={
            <span className="shrink-0 wide:w-34">
              <StatusBadge status={session.status} />
            </span>
          }
          title={
            <>
              {node.name}
              {node.dependsOn.length > 0 && (
                <span className="text-soft">
                  {' '}
                  after {node.dependsOn.map((key) => names.get(key) ?? key).join(', ')}
                </span>
              )}
            </>
          }
          facts={
            <>
              <span dir="auto" className="hidden w-28 truncate wide:inline">
                {session.agent_slug ?? session.participants[0] ?? ''}
              </span>
              <span className="figures w-28 text-right whitespace-nowrap">{tookText(session, now)}</span>
            </>
          }
        />
      ))}
    </List>
  );
}

export function StepsTab({ id }: { id: string }) {
  const { data, error, refetch } = useChildren(id);
  const graph = useMemo(() => stepsGraph(data ?? []), [data]);
  if (error !== null && data === undefined) return <ErrorState error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton />;
  if (data.length === 0) return <EmptyState>This session has started no other sessions.</EmptyState>;
  const names = new Map(graph.nodes.map((node) => [node.key, node.name]));
  return (
    <div className="grid min-w-0 gap-4">
      {graph.circle.length > 0 && (
        <p role="status" className="rounded-control bg-failed-tint px-3 py-1 text-row">
          These steps wait for each other in a circle, and none of them begins:{' '}
          {[...graph.circle, graph.circle[0] ?? ''].map((key) => names.get(key) ?? key).join(' → ')}
        </p>
      )}
      {graph.isKnown && <Graph graph={graph} />}
      <Section title={graph.isKnown ? 'Steps' : 'Sessions that it started'} count={data.length}>
        <StepsList graph={graph} />
      </Section>
    </div>
  );
}
