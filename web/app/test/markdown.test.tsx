import { render, screen } from '@testing-library/react';
import { userEvent } from '@testing-library/user-event';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { TooltipProvider } from '../src/components/Tooltip.js';
import { formatMarkdown } from '../src/markdown/FormattedMarkdown.js';
import { Markdown } from '../src/markdown/Markdown.js';
import { isCheapToFormat } from '../src/markdown/scanCost.js';

const ATTACKS = [
  '[x](JaVaScRiPt:alert(1))',
  '[x](java\tscript:alert(1))',
  '[x](&#106;avascript:alert(1))',
  '<javascript:alert(1)>',
  '[a][b]\n\n[b]: javascript:alert(1)',
  '![a][b]\n\n[b]: https://evil.example/x.png',
  '![x](https://evil.example/p.png "t")',
  'text[^1]\n\n[^1]: <img src=x onerror=alert(1)>',
  '<style>*{display:none}</style>',
  '<svg onload=alert(1)>',
  '<div style="x" onclick=alert(1)>hi</div>',
  '<iframe src="https://e">',
  '- [ ] todo\n- [x] done',
  '| a | b |\n|---|---|\n| 1 | <b>2</b> |',
  'https://evil.example/a?b=1',
  '<details><summary>s</summary>x</details>',
  '```html\n<script>1</script>\n```',
  '# app\n\n## page\n\npara **b** `c`',
  '<!-- hidden --> seen',
  '&lt;script&gt;',
  '[x](//evil.example)',
  '[x](data:text/html;base64,AAAA)',
  '[x](vbscript:msgbox)',
  '[x](#page)',
  '[x](https://ok.example "t\\" onmouseover=1")',
  '---\ntitle: x\n---\n\ntext',
];

const ALLOWED =
  'A P DIV SPAN EM STRONG DEL CODE PRE UL OL LI BLOCKQUOTE TABLE THEAD TBODY TR TH TD HR BR SUP FOOTER H4 H5 H6 BUTTON SVG PATH RECT'.split(
    ' ',
  );
const ALLOWED_ATTRIBUTES = ['href', 'title', 'target', 'rel', 'start', 'style'];

function show(text: string) {
  return render(<TooltipProvider>{formatMarkdown(text)}</TooltipProvider>);
}

function elementsOf(text: string): Element[] {
  const { container } = show(text);
  return [...container.querySelectorAll('*')];
}

describe('formatted markdown', () => {
  it.each(ATTACKS)('lets nothing through of %j', (attack) => {
    for (const element of elementsOf(attack)) {
      expect(ALLOWED).toContain(element.tagName.toUpperCase());
      // The button that copies the address of an image is ours.
      if (element.closest('button') !== null || element.querySelector('button') !== null) continue;
      for (const { name, value } of element.attributes) {
        expect(ALLOWED_ATTRIBUTES).toContain(name);
        if (name === 'href') expect(value).toMatch(/^(https?:\/\/|mailto:)/i);
        if (name === 'style') expect(value).toMatch(/^text-align: \w+;$/);
      }
    }
  });

  it('opens links elsewhere, without a referrer, and shows the whole address', () => {
    show('[the map](https://example.org/map?a=1)');
    const link = screen.getByRole('link', { name: 'the map' });
    expect(link.getAttribute('href')).toBe('https://example.org/map?a=1');
    expect(link.getAttribute('title')).toBe('https://example.org/map?a=1');
    expect(link.getAttribute('rel')).toBe('noopener noreferrer nofollow');
    expect(link.getAttribute('target')).toBe('_blank');
  });

  it('shows the text of a link that it does not follow', () => {
    const { container } = show('see [the files](file:///etc/passwd) here');
    expect(container.textContent).toContain('see the files here');
    expect(container.querySelector('a')).toBeNull();
  });

  it('names images and loads none', () => {
    const { container } = show('![a cat](https://example.org/cat.png)');
    expect(container.textContent).toContain('[image: a cat]');
    expect(container.querySelector('img')).toBeNull();
    screen.getByRole('button', { name: 'Copy the address of the image' });
  });

  it('puts headings beneath those of the page and gives them no id', () => {
    const html = renderToStaticMarkup(createElement('div', null, formatMarkdown('# app\n\n## two\n\n###### six')));
    expect(html).toContain('<h4>app</h4>');
    expect(html).toContain('<h5>two</h5>');
    expect(html).toContain('<h6>six</h6>');
    expect(html).not.toContain('id=');
  });

  it('keeps lists, tables, code and quotes', () => {
    const text = '3. three\n4. four\n\n> said\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n```js\nlet x;\n```';
    const html = renderToStaticMarkup(createElement('div', null, formatMarkdown(text)));
    expect(html).toContain('<ol start="3">');
    expect(html).toContain('<blockquote>');
    expect(html).toContain('<td style="text-align:right">2</td>');
    expect(html).toMatch(/<pre><code>let x;/);
  });
});

const COLUMNS = (count: number) => `${'|a'.repeat(count)}\n${'|-'.repeat(count)}\n${'|b'.repeat(count)}`;

const BOMBS: [string, string][] = [
  ['1,000 quotes', `${'>'.repeat(1000)}x`],
  ['10,000 quotes', `${'>'.repeat(10_000)}x`],
  ['quotes with spaces', `${'> '.repeat(5000)}x`],
  ['10,000 brackets', '['.repeat(10_000)],
  ['open links', '[a]('.repeat(5000)],
  ['stars', '*a '.repeat(5000)],
  ['mixed emphasis', '**a _b '.repeat(2500)],
  ['growing backticks', Array.from({ length: 300 }, (_, at) => '`'.repeat(at)).join('a')],
  ['2,000 columns', COLUMNS(2000)],
  ['a line of 256 kB', 'word '.repeat(52_000)],
  ['lists 300 deep', Array.from({ length: 300 }, (_, at) => `${' '.repeat(at * 2)}- x`).join('\n')],
  ['lists on one line', `${'- '.repeat(3000)}x`],
  ['64 kB of code', `\`\`\`\n${'line of code\n'.repeat(5000)}\`\`\``],
  ['20 kB of wide signs', '語'.repeat(8000)],
];

describe('the scan before formatting', () => {
  it.each(BOMBS)('calls %s costly, and takes less than 50 ms to say so', (_name, bomb) => {
    // The best of three, because other work on the machine counts too.
    const times = [1, 2, 3].map(() => {
      const begun = performance.now();
      expect(isCheapToFormat(bomb)).toBe(false);
      return performance.now() - begun;
    });
    expect(Math.min(...times)).toBeLessThan(50);
  });

  it.each([
    [
      'a letter',
      'Dear Ann,\n\nthe **desks** come on *Tuesday*. See [the plan](https://example.org).\n\n- one\n  - two\n    - three',
    ],
    ['a table of 20 columns', COLUMNS(20)],
    ['a report of 19 kB', '## Part\n\nSome `words` and **more**, as they are said (and meant).\n\n'.repeat(290)],
    ['code with deep indentation', `\`\`\`\n${' '.repeat(60)}deep((((((((((((((((((((((((x\n\`\`\``],
    ['nothing', ''],
  ])('calls %s cheap', (_name, text) => {
    expect(isCheapToFormat(text)).toBe(true);
  });

  it('stands at exactly its limits', () => {
    expect(isCheapToFormat('a'.repeat(20 * 1024))).toBe(true);
    expect(isCheapToFormat('a'.repeat(20 * 1024 + 1))).toBe(false);
    expect(isCheapToFormat(`${'>'.repeat(20)}x`)).toBe(true);
    expect(isCheapToFormat(`${'>'.repeat(21)}x`)).toBe(false);
    expect(isCheapToFormat(COLUMNS(100))).toBe(true);
    expect(isCheapToFormat(COLUMNS(101))).toBe(false);
  });
});

describe('Markdown', () => {
  it('formats a cheap text by itself', async () => {
    render(<Markdown text="**bold** words" />);
    expect((await screen.findByText('bold')).tagName).toBe('STRONG');
  });

  it('shows a costly text as it is, and formats it on request', async () => {
    render(<Markdown text={`**bold** ${'word '.repeat(6000)}`} />);
    screen.getByText(/^\*\*bold\*\* word/);
    await userEvent.click(screen.getByRole('button', { name: 'Show formatted' }));
    expect((await screen.findByText('bold')).tagName).toBe('STRONG');
  });

  it.each(BOMBS)('keeps %s on the screen when it is formatted on request', async (_name, bomb) => {
    const { container } = render(<Markdown text={bomb} />);
    const button = screen.queryByRole('button', { name: 'Show formatted' });
    if (button !== null) await userEvent.click(button);
    expect(container.textContent?.length).toBeGreaterThan(0);
  });
});
