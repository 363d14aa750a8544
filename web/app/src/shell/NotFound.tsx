/** An address that no page has. */
import { Link } from 'wouter';
import { EmptyState } from '../components/EmptyState.js';
import { usePageTitle } from './pageFrame.js';

export function NotFound() {
  usePageTitle('No such page');
  return (
    <EmptyState
      action={
        <Link href="/" className="text-accent underline">
          Go to Today
        </Link>
      }
    >
      No page has this address.
    </EmptyState>
  );
}
