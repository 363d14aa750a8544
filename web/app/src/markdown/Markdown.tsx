/**
 * A text that may be markdown. It is on the screen at once as plain text; formatted where that is cheap, and on request where it
 * is not. What goes wrong in formatting leaves the plain text.
 */
import { Component, lazy, type ReactNode, Suspense, useState } from 'react';
import { Button } from '../components/Button.js';
import { isCheapToFormat } from './scanCost.js';
import { wasSlow } from './slowTexts.js';

/** Beyond this, formatting is not offered: it could stop the page for seconds. */
const OFFERED_CHARS_MAX = 256 * 1024;

const FormattedMarkdown = lazy(() =>
  import('./FormattedMarkdown.js').then((module) => ({ default: module.FormattedMarkdown })),
);

class PlainOnFailure extends Component<{ plain: ReactNode; children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    return this.state.hasFailed ? this.props.plain : this.props.children;
  }
}

function PlainText({ text }: { text: string }) {
  return (
    <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
      {text}
    </div>
  );
}

export function Markdown({ text }: { text: string }) {
  const [wanted, setWanted] = useState<string | null>(null);
  const plain = <PlainText text={text} />;
  const isCheap = !wasSlow(text) && isCheapToFormat(text);
  if (isCheap || wanted === text) {
    return (
      <PlainOnFailure key={text} plain={plain}>
        <Suspense fallback={plain}>
          <div dir="auto">
            <FormattedMarkdown text={text} />
          </div>
        </Suspense>
      </PlainOnFailure>
    );
  }
  return (
    <>
      {plain}
      {text.length <= OFFERED_CHARS_MAX && (
        <Button kind="ghost" onClick={() => setWanted(text)}>
          Show formatted
        </Button>
      )}
    </>
  );
}
