/** The decision on an approval that stands among other things, such as in a transcript: its buttons, and the keys of the map. */
import { ApprovalDetail, type ApprovalHandle, type ApprovalInContext, useOutboxDecision } from '@sederunt/react';
import { useRef } from 'react';
import { useMe } from '../auth/SignInProvider.js';
import { useKeys } from '../keyboard/KeyboardProvider.js';
import { bindingOf, type KeyId } from '../keyboard/keymap.js';
import { keyText } from '../keyboard/press.js';
import { REASON_TEMPLATES } from './approvalWords.js';
import { useDecisions } from './DecisionsProvider.js';

function keySign(id: KeyId): string {
  return keyText(bindingOf(id).keys[0] ?? '');
}

/** What the buttons of an approval show as their keys. */
export const APPROVAL_KEY_HINTS = {
  approve: keySign('approve'),
  edit: keySign('edit'),
  reject: keySign('reject'),
  send: keySign('send'),
};

export interface InlineDecisionProps {
  approval: ApprovalInContext;
  /** How long the decision can be taken back; 0 sends it at once. */
  undoMs?: number | undefined;
}

export function InlineDecision({ approval, undoMs }: InlineDecisionProps) {
  const { can } = useMe();
  const { outbox, decide, answered } = useDecisions();
  const kept = useOutboxDecision(outbox, approval);
  const handle = useRef<ApprovalHandle>(null);
  const act = (how: (open: ApprovalHandle) => unknown) => () => (handle.current === null ? false : how(handle.current));
  useKeys({
    approve: act((open) => open.approve()),
    edit: act((open) => open.edit()),
    reject: act((open) => open.reject()),
    send: act((open) => open.send()),
    leave: act((open) => open.leave()),
  });
  return (
    <ApprovalDetail
      approval={approval}
      decision={{ ...kept, decide: (verdict) => decide([approval], verdict, undoMs) }}
      canDecide={can.includes('decide')}
      reasonTemplates={REASON_TEMPLATES}
      keyHints={APPROVAL_KEY_HINTS}
      handle={handle}
      onDecided={answered}
    />
  );
}
