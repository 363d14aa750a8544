/** The calls of signing in and out. They go past the gate: a 401 here is an answer and not a reason to wait. */
import { type components, createSederuntClient } from '@sederunt/react';
import type { Person } from './signInGate.js';

export type Me = components['schemas']['Me'];
export type SignInConfig = components['schemas']['SignInConfig'];
/** What a person can sign in with. */
export type CredentialKind = 'key' | 'token';

export const meQueryKey = ['me'] as const;

const client = createSederuntClient();

export function readMe(signal?: AbortSignal): Promise<Me> {
  return client.get('/api/me', { signal });
}

export function readSignInConfig(signal?: AbortSignal): Promise<SignInConfig> {
  return client.get('/auth/config', { signal });
}

export async function signIn(kind: CredentialKind, secret: string): Promise<void> {
  await client.json('/auth/session', { method: 'POST', body: { [kind]: secret } });
}

export async function signOut(): Promise<void> {
  await client.json('/auth/session', { method: 'DELETE' });
}

export function personOf(me: Me): Person {
  return { tenant: me.tenant, userId: me.user?.id ?? null };
}
