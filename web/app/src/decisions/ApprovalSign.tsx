/** The sign of an approval's kind, with its word for screen readers. */
import { ArrowUpFromLine, CircleQuestionMark, type LucideIcon, PenLine, TriangleAlert, Wrench } from 'lucide-react';
import { KIND_WORDS } from './approvalWords.js';

const SIGNS: Readonly<Record<string, LucideIcon>> = {
  tool: Wrench,
  output: PenLine,
  promotion: ArrowUpFromLine,
  question: CircleQuestionMark,
};

export function ApprovalSign({ kind }: { kind: string }) {
  const Sign = SIGNS[kind] ?? TriangleAlert;
  const words = KIND_WORDS[kind] ?? 'cannot be read';
  return (
    <span title={words} className="shrink-0 text-soft">
      <Sign size={14} aria-hidden="true" />
      <span className="sr-only">{words}</span>
    </span>
  );
}
