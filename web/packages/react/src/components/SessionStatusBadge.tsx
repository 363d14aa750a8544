/** The status of a session: a glyph and a word, never colour alone. */
import { isValidSessionStatus, statusSign } from '../vocabulary/status.js';
import { classNames } from './classNames.js';

export interface SessionStatusBadgeProps {
  /** A status that this version does not know is shown by its name. */
  status: string;
  className?: string | undefined;
}

export function SessionStatusBadge({ status, className }: SessionStatusBadgeProps) {
  const { glyph, word } = statusSign(status);
  return (
    <span
      data-sdr=""
      className={classNames('sdr-badge', className)}
      data-status={isValidSessionStatus(status) ? status : 'unknown'}
    >
      <span className="sdr-badge-glyph" aria-hidden="true">
        {glyph}
      </span>
      {word}
    </span>
  );
}
