/** A field with its name above it, and a hint or what is wrong with it beneath. */
import { type ReactNode, useId } from 'react';

export interface FieldControlProps {
  id: string;
  className: string;
  'aria-invalid': boolean;
  'aria-describedby': string | undefined;
}

export interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  /** Gets what belongs on the input, textarea or select. */
  children: (props: FieldControlProps) => ReactNode;
}

const CONTROL =
  'min-h-8 w-full rounded-control border border-edge bg-paper px-2 py-1 text-body pointer-coarse:min-h-11 aria-invalid:border-error';

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const isWrong = error !== undefined && error !== null;
  const hasNote = isWrong || hint !== undefined;
  return (
    <div className="grid gap-1">
      <label htmlFor={id} className="text-row font-semibold">
        {label}
      </label>
      {children({
        id,
        className: CONTROL,
        'aria-invalid': isWrong,
        'aria-describedby': hasNote ? `${id}-note` : undefined,
      })}
      {hasNote && (
        <p
          id={`${id}-note`}
          role={isWrong ? 'alert' : undefined}
          className={isWrong ? 'text-row text-error' : 'text-row text-soft'}
        >
          {isWrong ? error : hint}
        </p>
      )}
    </div>
  );
}
