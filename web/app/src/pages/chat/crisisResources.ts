/** The places that help, read out of a crisis answer: it lists each on a line of its own, as `- name: contact`. */

export interface HelpPlace {
  name: string;
  contact: string;
  /** What pressing it opens; null where the contact is neither an address nor a number. */
  href: string | null;
}

const PLACE = /^- ([^:\n]{1,120}): (\S.{0,200})$/;

function hrefOf(contact: string): string | null {
  if (/^https:\/\/\S+$/.test(contact)) return contact;
  const number = /^\+?\d[\d -]*\d|^\d+/.exec(contact)?.[0];
  return number === undefined ? null : `tel:${number.replace(/[ -]/g, '')}`;
}

/** The places, and the words around them. */
export function readCrisisAnswer(text: string): { places: readonly HelpPlace[]; words: string } {
  const places: HelpPlace[] = [];
  const words: string[] = [];
  for (const line of text.split('\n')) {
    const [, name, contact] = PLACE.exec(line) ?? [];
    if (name === undefined || contact === undefined) words.push(line);
    else places.push({ name, contact, href: hrefOf(contact) });
  }
  return {
    places,
    words: words
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim(),
  };
}
