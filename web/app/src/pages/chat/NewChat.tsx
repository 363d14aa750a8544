/** The page of a new chat: cards to begin with, whether it is incognito, and whose memory it uses. */
import { Switch } from 'radix-ui';
import { type SubmitEvent, useId, useRef, useState } from 'react';
import { useMe } from '../../auth/SignInProvider.js';
import { Button } from '../../components/Button.js';
import { Dialog } from '../../components/Dialog.js';
import { Field } from '../../components/Field.js';
import { ChatBar } from './ChatBar.js';
import { Composer, type ComposerHandle } from './Composer.js';
import type { Drafts } from './drafts.js';
import { DEFAULT_SPEAKER, isSpeakerName, setSpeaker, useSpeaker } from './speaker.js';

const STARTERS: readonly { title: string; message: string }[] = [
  { title: 'Plan the day', message: 'Help me plan the day. What I have to do: ' },
  { title: 'Think something through', message: 'I want to think something through with you: ' },
  { title: 'Calm down for a minute', message: 'Can we do a breathing exercise?' },
  { title: 'See what is remembered', message: 'What do you remember about me?' },
];

function SpeakerForm({ onDone }: { onDone: () => void }) {
  const current = useSpeaker();
  const [name, setName] = useState(current === DEFAULT_SPEAKER ? '' : current);
  const [error, setError] = useState<string | null>(null);
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    const wanted = name.trim();
    if (wanted !== '' && !isSpeakerName(wanted)) {
      setError('A name has 1 to 200 letters, digits and signs, without spaces.');
      return;
    }
    setSpeaker(wanted);
    onDone();
  };
  return (
    <form className="grid gap-4" onSubmit={save}>
      <Field label="Name" hint={`Left empty: ${DEFAULT_SPEAKER}.`} error={error}>
        {(props) => (
          <input {...props} autoComplete="off" value={name} onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <Button type="submit" kind="primary">
        Use this name
      </Button>
    </form>
  );
}

/** On a server without sign-in: the name under which memories are kept. */
function SpeakerChoice() {
  const name = useSpeaker();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button kind="ghost" onClick={() => setOpen(true)}>
        Talking as <span className="max-w-40 truncate">{name}</span>
      </Button>
      <Dialog
        isOpen={isOpen}
        onOpenChange={setOpen}
        title="Whose memory is used"
        description="What agents learn in your chats is kept under this name, and used in the next ones."
      >
        <SpeakerForm onDone={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

function IncognitoSwitch({ isOn, onChange }: { isOn: boolean; onChange: (isOn: boolean) => void }) {
  const id = useId();
  return (
    <span className="flex min-h-7 items-center gap-2">
      <label htmlFor={id} className="text-row">
        Incognito
      </label>
      <Switch.Root
        id={id}
        checked={isOn}
        onCheckedChange={onChange}
        className="relative h-5 w-9 rounded-full border border-edge bg-sunken data-[state=checked]:bg-accent"
      >
        <Switch.Thumb className="block size-3.5 translate-x-0.5 rounded-full bg-soft data-[state=checked]:translate-x-4.5 data-[state=checked]:bg-on-accent" />
      </Switch.Root>
    </span>
  );
}

export interface NewChatProps {
  drafts: Drafts;
  onSend: (text: string, isIncognito: boolean) => void;
  takesFocus: boolean;
}

export function NewChat({ drafts, onSend, takesFocus }: NewChatProps) {
  const me = useMe();
  const [isIncognito, setIncognito] = useState(false);
  const composer = useRef<ComposerHandle>(null);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <ChatBar>
        {me.auth === 'local' && !isIncognito && <SpeakerChoice />}
        <IncognitoSwitch isOn={isIncognito} onChange={setIncognito} />
      </ChatBar>
      <div className="min-h-0 flex-1 overflow-y-auto">
        <div className="mx-auto grid max-w-3xl gap-4 px-4 py-12">
          <h2 className="text-title font-semibold">What is on your mind?</h2>
          {isIncognito ? (
            <p className="text-soft">
              This chat will be kept in the server's memory alone: it is in no list, nothing of it is remembered, and it
              is gone an hour after the last message or when the server stops. That stays so.
            </p>
          ) : (
            <ul aria-label="Ways to begin" className="grid gap-2 wide:grid-cols-2">
              {STARTERS.map((starter) => (
                <li key={starter.title}>
                  <button
                    type="button"
                    onClick={() => composer.current?.add(starter.message)}
                    className="grid w-full gap-1 rounded-card border border-line bg-raised px-4 py-3 text-left hover:bg-sunken"
                  >
                    <span className="font-semibold">{starter.title}</span>
                    <span className="text-row text-soft">{starter.message.trim()}</span>
                  </button>
                </li>
              ))}
            </ul>
          )}
        </div>
      </div>
      <div className="mx-auto w-full max-w-3xl px-4 pb-4">
        <Composer
          ref={composer}
          place="new"
          drafts={isIncognito ? null : drafts}
          isBusy={false}
          isStopping={false}
          onStop={() => undefined}
          onSend={(text) => onSend(text, isIncognito)}
          takesFocus={takesFocus}
        />
      </div>
    </div>
  );
}
