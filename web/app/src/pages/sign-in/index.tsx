/** The sign-in page. It leads back to where the person was. */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useLocation } from 'wouter';
import { meQueryKey, readMe } from '../../auth/api.js';
import { returnPath } from '../../auth/returnPath.js';
import { SignInForm } from '../../auth/SignInForm.js';

export function Page() {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  useEffect(() => {
    document.title = 'Sign in · Sederunt';
  }, []);
  const onSignedIn = async () => {
    const me = await readMe();
    queries.clear();
    queries.setQueryData(meQueryKey, me);
    navigate(returnPath(location.search), { replace: true });
  };
  return (
    <main className="mx-auto grid max-w-sm gap-6 px-4 py-[12vh]">
      <h1 className="text-title font-semibold">Sign in to Sederunt</h1>
      <SignInForm onSignedIn={onSignedIn} />
    </main>
  );
}
