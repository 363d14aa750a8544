/** Chat: conversations with agents. */
import { Section } from '../../components/Section.js';
import { usePageTitle } from '../../shell/pageFrame.js';

export function Page() {
  usePageTitle('Chat');
  return (
    <div className="p-4">
      <Section title="Chats">{null}</Section>
    </div>
  );
}
