/** The inbox: approvals that the person can decide. */
import { Section } from '../../components/Section.js';
import { usePageTitle } from '../../shell/pageFrame.js';

export function Page() {
  usePageTitle('Inbox');
  return (
    <div className="p-4">
      <Section title="Waiting for a decision">{null}</Section>
    </div>
  );
}
