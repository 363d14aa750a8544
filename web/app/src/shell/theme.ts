/** The theme: the system's, or the one that the person chose. public/assets/theme.js sets it before the first paint. */
import { useEffect } from 'react';
import { storedChoice } from '../lib/storedChoice.js';

const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

export const theme = storedChoice('sederunt:theme', THEMES);

export function nextTheme(now: Theme): Theme {
  return THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? 'system';
}

/** Keeps `data-theme` of the document as it was chosen. */
export function useAppliedTheme(): void {
  const chosen = theme.use();
  useEffect(() => {
    if (chosen === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = chosen;
  }, [chosen]);
}
