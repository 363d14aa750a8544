/** What another page says with the address of the chat when the person has asked there for a new one. */

export const NEW_CHAT_ASKED = { isNewChatAsked: true } as const;

/** Whether the history entry says so. It may hold anything: other code of the page may write there too. */
export function isNewChatAsked(state: unknown): boolean {
  return typeof state === 'object' && state !== null && 'isNewChatAsked' in state && state.isNewChatAsked === true;
}
