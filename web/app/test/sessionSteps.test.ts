import { describe, expect, it } from 'vitest';
import { findCircle, stepsGraph } from '../src/pages/session/stepsGraph.js';
import { layOutSteps, NODE_WIDTH } from '../src/pages/session/stepsLayout.js';
import type { ChildSession } from '../src/pages/session/useChildren.js';

function child(key: string, dependsOn: readonly string[] = [], more: Partial<ChildSession> = {}): ChildSession {
  return {
    id: `run-${key}`,
    title: `Step ${key}`,
    status: 'draft',
    created_at: '2026-11-18T09:00:00Z',
    step: { key, name: null, depends_on: dependsOn },
    ...more,
  } as ChildSession;
}

describe('the graph of steps', () => {
  it('goes from left to right', () => {
    const graph = stepsGraph([child('a'), child('b', ['a']), child('c', ['a']), child('d', ['b', 'c', 'b'])]);
    expect(graph.edges).toHaveLength(4);
    const { corners, edges } = layOutSteps(graph);
    for (const { from, to } of graph.edges) {
      expect((corners.get(to)?.x ?? 0) - (corners.get(from)?.x ?? 0)).toBeGreaterThan(NODE_WIDTH);
    }
    expect(edges.every((edge) => edge.points.length >= 2)).toBe(true);
  });

  it('has every step after those that it waits for, as a list that is read aloud must', () => {
    const graph = stepsGraph([child('c', ['b']), child('b', ['a']), child('x', ['x', 'b']), child('a')]);
    expect(graph.nodes.map((node) => node.key)).toEqual(['a', 'b', 'c', 'x']);
  });

  it('shows a step that others wait for and that the run does not have', () => {
    const graph = stepsGraph([child('a', ['gone'])]);
    expect(graph.nodes.map((node) => [node.key, node.session?.id])).toEqual([
      ['gone', undefined],
      ['a', 'run-a'],
    ]);
  });

  it('shows the newest try of a step', () => {
    const later = child('a', [], { id: 'again', created_at: '2026-11-18T10:00:00Z' });
    expect(stepsGraph([later, child('a')]).nodes.map((node) => node.session?.id)).toEqual(['again']);
  });

  it('names a circle, and is laid out all the same', () => {
    const graph = stepsGraph([child('free'), child('a', ['c', 'free']), child('b', ['a']), child('c', ['b'])]);
    expect([...graph.circle].sort()).toEqual(['a', 'b', 'c']);
    expect(layOutSteps(graph).corners.size).toBe(4);
    const alone = stepsGraph([child('self', ['self'])]);
    expect(alone.circle).toEqual(['self']);
    expect(layOutSteps(alone).edges).toEqual([]);
  });

  it('finds no circle where many paths lead to one step, nor in a chain of 300', () => {
    const diamond = new Map([
      ['d', ['b', 'c']],
      ['b', ['a']],
      ['c', ['a']],
      ['a', []],
    ]);
    expect(findCircle(diamond)).toEqual([]);
    const chain = new Map(Array.from({ length: 300 }, (_, at) => [`s${at}`, at === 0 ? [] : [`s${at - 1}`]]));
    expect(findCircle(chain)).toEqual([]);
    chain.set('s0', ['s299']);
    expect(findCircle(chain)).toHaveLength(300);
  });

  it('is unknown where the server tells no places, and every child is there', () => {
    const graph = stepsGraph([child('a', [], { step: null }), child('b', [], { step: null })]);
    expect(graph.isKnown).toBe(false);
    expect(graph.nodes.map((node) => node.name)).toEqual(['Step a', 'Step b']);
  });
});
