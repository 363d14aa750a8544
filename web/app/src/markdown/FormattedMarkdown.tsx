/**
 * Formats markdown to elements that can do nothing: only the tags and attributes named here come through. Links lead to the web
 * or to mail, images are named and not loaded, and nothing gets an id, which could take the place of one of ours.
 */
import { compiler } from 'markdown-to-jsx/react';
import { type CSSProperties, createElement, memo, type ReactNode, useMemo } from 'react';
import { CopyButton } from '../components/CopyButton.js';
import { noteFormatting } from './slowTexts.js';

type Props = Readonly<Record<string, unknown>>;

const TAGS: ReadonlySet<string> = new Set(
  'p div span em strong del s code pre ul ol li blockquote table thead tbody tr th td hr br sup sub footer section'.split(
    ' ',
  ),
);
/** Headings go three levels down, beneath the headings of the page. */
const HEADINGS: Readonly<Record<string, string>> = { h1: 'h4', h2: 'h5', h3: 'h6', h4: 'h6', h5: 'h6', h6: 'h6' };
const EMPTY_TAGS: ReadonlySet<string> = new Set(['hr', 'br']);
const LINKS = /^(https?:\/\/|mailto:)/i;
const ALIGNMENTS: readonly unknown[] = ['left', 'right', 'center'];

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function Link({ href, children }: { href: string; children: ReactNode }) {
  return (
    <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function ImageName({ alt, address }: { alt: string; address: string | undefined }) {
  return (
    <span className="inline-flex items-center gap-1 text-soft">
      [image: {alt}]{address !== undefined && <CopyButton text={address} label="Copy the address of the image" />}
    </span>
  );
}

function alignment(props: Props): { style?: CSSProperties } {
  const style = props['style'];
  const align = typeof style === 'object' && style !== null && 'textAlign' in style ? style.textAlign : props['align'];
  return ALIGNMENTS.includes(align) ? { style: { textAlign: align as 'left' | 'right' | 'center' } } : {};
}

/** The attributes that come through; all others are dropped. */
function attributesOf(tag: string, props: Props): Record<string, unknown> {
  if (tag === 'th' || tag === 'td') return alignment(props);
  const start = props['start'];
  return tag === 'ol' && typeof start === 'number' ? { start } : {};
}

function inertElement(tag: unknown, props: Props, children: ReactNode[]): ReactNode {
  const key = textOf(props['key']) ?? (typeof props['key'] === 'number' ? props['key'] : undefined);
  const keyed = key === undefined ? {} : { key };
  const name = typeof tag === 'string' ? tag.toLowerCase() : '';
  const href = textOf(props['href']);
  if (name === 'a' && href !== undefined && LINKS.test(href)) return createElement(Link, { ...keyed, href, children });
  if (name === 'img') {
    const shown = { alt: textOf(props['alt']) ?? '', address: textOf(props['src']) };
    return createElement(ImageName, { ...keyed, ...shown });
  }
  if (name === 'input') return createElement('span', keyed, props['checked'] === true ? '☑ ' : '☐ ');
  const shown = HEADINGS[name] ?? name;
  if (HEADINGS[name] === undefined && !TAGS.has(name)) return createElement('span', keyed, ...children);
  if (EMPTY_TAGS.has(name)) return createElement(shown, keyed);
  return createElement(shown, { ...keyed, ...attributesOf(name, props) }, ...children);
}

/** The elements of a text. */
export function formatMarkdown(text: string): ReactNode {
  return compiler(text, {
    disableParsingRawHTML: true,
    forceBlock: true,
    forceWrapper: true,
    slugify: () => '',
    createElement: (tag, props, ...children) => inertElement(tag, (props ?? {}) as Props, children),
  });
}

function FormattedText({ text }: { text: string }) {
  const formatted = useMemo(() => {
    const begun = performance.now();
    const elements = formatMarkdown(text);
    noteFormatting(text, performance.now() - begun);
    return elements;
  }, [text]);
  return <div className="markdown">{formatted}</div>;
}

/** The same text is not formatted again when its row is drawn again. */
export const FormattedMarkdown = memo(FormattedText);
