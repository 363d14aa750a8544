/** Whether a refusal says that the browser is not signed in. */
import { isRefusal } from '@sederunt/react';

export function isSignedOutRefusal(error: unknown): boolean {
  return isRefusal(error) && error.status === 401;
}
