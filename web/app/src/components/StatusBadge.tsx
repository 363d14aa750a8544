/** The status of a session: glyph and word. */
export { SessionStatusBadge as StatusBadge } from '@sederunt/react';
