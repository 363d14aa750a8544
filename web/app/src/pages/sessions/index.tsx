/** Sessions: all runs and conversations that the person may see. */
import { Section } from '../../components/Section.js';
import { usePageTitle } from '../../shell/pageFrame.js';

export function Page() {
  usePageTitle('Sessions');
  return (
    <div className="p-4">
      <Section title="Newest first">{null}</Section>
    </div>
  );
}
