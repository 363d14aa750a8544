/** Asks the person to sign in again, over the page. The page beneath keeps all that was typed. */
import { Dialog } from '../components/Dialog.js';
import { SignInForm } from './SignInForm.js';

export interface SignedOutDialogProps {
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  onSignedIn: () => void | Promise<void>;
}

export function SignedOutDialog({ isOpen, onOpenChange, onSignedIn }: SignedOutDialogProps) {
  return (
    <Dialog
      isOpen={isOpen}
      onOpenChange={onOpenChange}
      title="Signed out. Sign in again."
      description="What you typed is still here. What could not be sent is sent once you are signed in."
    >
      <SignInForm onSignedIn={onSignedIn} />
    </Dialog>
  );
}
