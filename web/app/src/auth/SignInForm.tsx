/** The form that signs a person in with a key or a token. It keeps the secret only until it is sent. */
import { useQuery } from '@tanstack/react-query';
import { type SyntheticEvent, useId, useState } from 'react';
import { Button } from '../components/Button.js';
import { ErrorState } from '../components/ErrorState.js';
import { Field } from '../components/Field.js';
import { type CredentialKind, readSignInConfig, signIn } from './api.js';
import { signInSentence } from './signInSentence.js';

const WORDS: Record<CredentialKind, { label: string; hint: string }> = {
  key: { label: 'Key', hint: 'It begins with sdr_. An owner makes it, or the command: sederunt keys create' },
  token: { label: 'Token', hint: 'A token of the service that signs in the people of this server.' },
};

function isKind(text: string): text is CredentialKind {
  return text === 'key' || text === 'token';
}

function useSignInForm(onSignedIn: () => void | Promise<void>) {
  const [kind, setKind] = useState<CredentialKind | null>(null);
  const [secret, setSecret] = useState('');
  const [error, setError] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const send = async (chosen: CredentialKind) => {
    if (isSending) return;
    if (secret.trim() === '') return setError(`Enter the ${chosen}.`);
    setSending(true);
    setError(null);
    try {
      await signIn(chosen, secret.trim());
      setSecret('');
      await onSignedIn();
    } catch (refusal) {
      setError(signInSentence(refusal, chosen));
    } finally {
      setSending(false);
    }
  };
  return { kind, setKind, secret, setSecret, error, isSending, send };
}

export function SignInForm({ onSignedIn }: { onSignedIn: () => void | Promise<void> }) {
  const config = useQuery({
    queryKey: ['auth', 'config'],
    queryFn: ({ signal }) => readSignInConfig(signal),
    retry: 1,
  });
  const form = useSignInForm(onSignedIn);
  const id = useId();
  if (config.error !== null) return <ErrorState error={config.error} onRetry={() => void config.refetch()} />;
  if (config.data === undefined) return null;
  const kinds = config.data.sign_in.filter(isKind);
  const first = kinds[0];
  if (first === undefined) {
    return (
      <div className="grid gap-3">
        <p>This server runs in local mode: there is nothing to sign in to.</p>
        <Button kind="primary" onClick={() => void onSignedIn()}>
          Go on
        </Button>
      </div>
    );
  }
  const kind = form.kind ?? first;
  return (
    <form
      className="grid gap-3"
      onSubmit={(event: SyntheticEvent) => {
        event.preventDefault();
        void form.send(kind);
      }}
    >
      {kinds.length > 1 && (
        <fieldset className="flex gap-4">
          <legend className="mb-1 text-row text-soft">Sign in with</legend>
          {kinds.map((one) => (
            <label key={one} className="flex min-h-7 items-center gap-2">
              <input
                type="radio"
                name={`${id}-kind`}
                className="accent-accent"
                checked={one === kind}
                onChange={() => form.setKind(one)}
              />
              {WORDS[one].label}
            </label>
          ))}
        </fieldset>
      )}
      <Field label={WORDS[kind].label} hint={WORDS[kind].hint} error={form.error}>
        {(props) => (
          <input
            {...props}
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            autoCapitalize="none"
            value={form.secret}
            onChange={(event) => form.setSecret(event.target.value)}
          />
        )}
      </Field>
      <Button kind="primary" type="submit" isBusy={form.isSending}>
        Sign in
      </Button>
    </form>
  );
}
