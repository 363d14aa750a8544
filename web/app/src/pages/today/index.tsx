/** Today: what needs the person, what runs, and what was done. */
import { Section } from '../../components/Section.js';
import { usePageTitle } from '../../shell/pageFrame.js';

export function Page() {
  usePageTitle('Today');
  return (
    <div className="p-4">
      <Section title="Needs you">{null}</Section>
    </div>
  );
}
