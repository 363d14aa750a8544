/** The graph of a run's steps: who waits for whom, what is missing, and what waits in a circle. */
import type { ChildSession } from './useChildren.js';

export interface StepNode {
  key: string;
  name: string;
  /** Undefined: other steps wait for it, and the run has no such step. */
  session: ChildSession | undefined;
  dependsOn: readonly string[];
}

export interface StepsGraph {
  nodes: readonly StepNode[];
  edges: readonly { from: string; to: string }[];
  /** The keys of one circle, in its order; empty if there is none. */
  circle: readonly string[];
  /** Some child says what it waits for. */
  isKnown: boolean;
}

function nameOf(child: ChildSession, key: string): string {
  return child.step?.name || child.title || key;
}

/** A circle among the steps, by following what each waits for. Written without recursion: a chain may be long. */
export function findCircle(waits: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  for (const start of waits.keys()) {
    const path: string[] = [];
    const onPath = new Map<string, number>();
    const todo: { key: string; depth: number }[] = [{ key: start, depth: 0 }];
    for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
      const { key, depth } = next;
      for (const left of path.splice(depth)) {
        onPath.delete(left);
        done.add(left);
      }
      const at = onPath.get(key);
      if (at !== undefined) return path.slice(at).reverse();
      if (done.has(key)) continue;
      onPath.set(key, path.length);
      path.push(key);
      for (const other of waits.get(key) ?? []) todo.push({ key: other, depth: depth + 1 });
    }
    for (const left of path) done.add(left);
  }
  return [];
}

/** Every step after those that it waits for; steps of a circle come last. */
function inOrder(nodes: readonly StepNode[]): readonly StepNode[] {
  const left = new Map(nodes.map((node) => [node.key, node.dependsOn.length]));
  const waiting = new Map<string, StepNode[]>(nodes.map((node) => [node.key, []]));
  for (const node of nodes) for (const key of node.dependsOn) waiting.get(key)?.push(node);
  const ordered = nodes.filter((node) => node.dependsOn.length === 0);
  for (const { key } of ordered) {
    for (const node of waiting.get(key) ?? []) {
      const count = (left.get(node.key) ?? 0) - 1;
      left.set(node.key, count);
      if (count === 0) ordered.push(node);
    }
  }
  const done = new Set(ordered);
  return [...ordered, ...nodes.filter((node) => !done.has(node))];
}

export function stepsGraph(children: readonly ChildSession[]): StepsGraph {
  // A retry of a step has the same key; the newest one is the step now.
  const byKey = new Map<string, StepNode>();
  const oldestFirst = [...children].sort((one, other) => one.created_at.localeCompare(other.created_at));
  for (const session of oldestFirst) {
    const key = session.step?.key ?? session.id;
    const dependsOn = [...new Set(session.step?.depends_on ?? [])];
    byKey.set(key, { key, name: nameOf(session, key), session, dependsOn });
  }
  const present = [...byKey.values()];
  for (const node of present) {
    for (const key of node.dependsOn) {
      if (!byKey.has(key)) byKey.set(key, { key, name: key, session: undefined, dependsOn: [] });
    }
  }
  const nodes = inOrder([...byKey.values()]);
  return {
    nodes,
    edges: nodes.flatMap((node) => node.dependsOn.map((from) => ({ from, to: node.key }))),
    circle: findCircle(new Map(nodes.map((node) => [node.key, node.dependsOn]))),
    isKnown: children.some((child) => child.step !== null && child.step !== undefined),
  };
}
