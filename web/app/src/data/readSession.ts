/** Reads the row of a session for a person who is signed in. */
import type { SederuntClient, Session } from '@sederunt/react';

export async function readSession(client: SederuntClient, id: string, signal: AbortSignal): Promise<Session> {
  // The other shape of the answer is for share links, which these pages do not use.
  return (await client.get('/api/sessions/{id}', { path: { id }, signal })) as Session;
}
