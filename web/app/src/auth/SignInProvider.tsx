/** Knows who is signed in, and holds calls while the person is not. */
import { SederuntProvider } from '@sederunt/react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { useLocation } from 'wouter';
import { ErrorState } from '../components/ErrorState.js';
import { reloadPage } from '../lib/reloadPage.js';
import { type Me, meQueryKey, personOf, readMe, signOut } from './api.js';
import { isSignedOutRefusal } from './isSignedOutRefusal.js';
import { signInAddress } from './returnPath.js';
import { SignedOutDialog } from './SignedOutDialog.js';
import { createSignInGate, scopeOf } from './signInGate.js';

export interface SignIn {
  me: Me;
  /** True while calls are held. */
  isSignedOut: boolean;
  /** Shows the form again, over the page. */
  signInAgain: () => void;
  signOut: () => Promise<void>;
}

const SignInContext = createContext<SignIn | null>(null);

export function useSignIn(): SignIn {
  const value = useContext(SignInContext);
  if (value === null) throw new Error('Put <SignInProvider> around this component.');
  return value;
}

export function useMe(): Me {
  return useSignIn().me;
}

function isHere(): Promise<boolean> {
  return readMe().then(
    () => true,
    (error: unknown) => {
      if (isSignedOutRefusal(error)) return false;
      throw error;
    },
  );
}

function useGate() {
  const [gate] = useState(() => createSignInGate(isHere));
  useEffect(() => gate.stop, [gate]);
  const isSignedOut = useSyncExternalStore(gate.subscribe, gate.isSignedOut);
  const heldActions = useSyncExternalStore(gate.subscribe, gate.heldActions);
  return { gate, isSignedOut, heldActions };
}

function SignedIn({ me, children }: { me: Me; children: ReactNode }) {
  const { gate, isSignedOut, heldActions } = useGate();
  const queries = useQueryClient();
  const [path, navigate] = useLocation();
  const [isDialogOpen, setDialogOpen] = useState(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the dialog comes back with each action that is held.
  useEffect(() => setDialogOpen(isSignedOut), [isSignedOut, heldActions]);

  const signIn = useMemo<SignIn>(
    () => ({
      me,
      isSignedOut,
      signInAgain: () => setDialogOpen(true),
      signOut: async () => {
        await signOut();
        gate.close();
        queries.clear();
        navigate('/sign-in');
      },
    }),
    [me, isSignedOut, gate, queries, navigate],
  );

  const onSignedIn = async () => {
    const now = await readMe();
    if (scopeOf(personOf(now)) !== scopeOf(personOf(me))) {
      // What is held and what is on the screen belong to another person: nothing of it goes on.
      reloadPage();
      return;
    }
    queries.setQueryData(meQueryKey, now);
    gate.open();
    void queries.invalidateQueries(undefined, { cancelRefetch: false });
  };

  return (
    <SederuntProvider fetch={gate.fetch} pathname={path} scope={scopeOf(personOf(me))}>
      <SignInContext value={signIn}>
        {children}
        <SignedOutDialog isOpen={isSignedOut && isDialogOpen} onOpenChange={setDialogOpen} onSignedIn={onSignedIn} />
      </SignInContext>
    </SederuntProvider>
  );
}

/** Shows its children to a person who is signed in, and sends all others to the sign-in page. */
export function SignInProvider({ children }: { children: ReactNode }) {
  const me = useQuery<Me>({
    queryKey: meQueryKey,
    queryFn: ({ signal }) => readMe(signal),
    staleTime: Number.POSITIVE_INFINITY,
    retry: (failures, error) => !isSignedOutRefusal(error) && failures < 2,
  });
  const [, navigate] = useLocation();
  const mustSignIn = me.data === undefined && isSignedOutRefusal(me.error);
  useEffect(() => {
    if (mustSignIn) navigate(signInAddress(location.pathname + location.search), { replace: true });
  }, [mustSignIn, navigate]);
  if (me.data !== undefined) return <SignedIn me={me.data}>{children}</SignedIn>;
  if (me.error === null || mustSignIn) return null;
  return (
    <div className="mx-auto max-w-lg p-6">
      <ErrorState error={me.error} onRetry={() => void me.refetch()} />
    </div>
  );
}
