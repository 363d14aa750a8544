/** What axe finds on a page: only what is serious or critical, with the elements. */
import type { Page } from 'playwright-core';

interface Violation {
  id: string;
  impact?: string | null;
  nodes: { target: unknown; failureSummary?: string }[];
}

declare const axe: { run: (root: unknown, options: unknown) => Promise<{ violations: Violation[] }> };

/** Needs a visitor that has axe. */
export async function seriousViolations(page: Page): Promise<string[]> {
  const violations = await page.evaluate(
    async () => (await axe.run(document, { resultTypes: ['violations'] })).violations,
  );
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${JSON.stringify(node.target)} ${node.failureSummary ?? ''}`),
    );
}
