/**
 * Stands in for `react-style-singleton`, by which Radix stops the page behind a dialog from scrolling. The original writes a
 * `<style>` element, which `style-src 'self'` forbids; a constructed style sheet is allowed. Same three exports.
 */
import { useEffect } from 'react';

export function stylesheetSingleton() {
  let users = 0;
  let sheet: CSSStyleSheet | null = null;
  return {
    add(css: string) {
      users += 1;
      if (users > 1) return;
      sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    },
    remove() {
      users -= 1;
      if (users > 0) return;
      const gone = sheet;
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== gone);
      sheet = null;
    },
  };
}

export function styleHookSingleton() {
  const sheet = stylesheetSingleton();
  return (css: string, isDynamic?: boolean) => {
    // biome-ignore lint/correctness/useExhaustiveDependencies: as the original, a style that is not dynamic stays as it was.
    useEffect(() => {
      sheet.add(css);
      return () => sheet.remove();
    }, [css && isDynamic]);
  };
}

export function styleSingleton() {
  const useStyle = styleHookSingleton();
  return ({ styles, dynamic }: { styles: string; dynamic?: boolean }) => {
    useStyle(styles, dynamic);
    return null;
  };
}
