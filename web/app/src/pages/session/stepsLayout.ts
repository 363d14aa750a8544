/** Places for the steps of a graph, left to right. Loaded with the tab that draws it. */
import { Graph, layout } from '@dagrejs/dagre';
import type { StepsGraph } from './stepsGraph.js';

export const NODE_WIDTH = 200;
export const NODE_HEIGHT = 60;

export interface Point {
  x: number;
  y: number;
}

export interface StepsLayout {
  width: number;
  height: number;
  /** The upper left corner of each step. */
  corners: ReadonlyMap<string, Point>;
  edges: readonly { from: string; to: string; points: readonly Point[] }[];
}

export function layOutSteps({ nodes, edges }: StepsGraph): StepsLayout {
  const graph = new Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 16, ranksep: 48, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.key, { width: NODE_WIDTH, height: NODE_HEIGHT });
  // A step that waits for itself has no line: the sentence over the graph says it.
  const drawn = edges.filter(({ from, to }) => from !== to);
  for (const { from, to } of drawn) graph.setEdge(from, to);
  layout(graph);
  const corners = new Map(
    nodes.map((node) => {
      const { x, y } = graph.node(node.key);
      return [node.key, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 }];
    }),
  );
  const { width = 0, height = 0 } = graph.graph();
  return {
    width,
    height,
    corners,
    edges: drawn.map(({ from, to }) => ({ from, to, points: graph.edge(from, to)?.points ?? [] })),
  };
}
