// Sets the chosen theme before the first paint. Without a choice, the style sheet follows the system.
// A file of its own, because the page's policy allows no inline script; src/shell/theme.ts writes the choice.
try {
  const theme = localStorage.getItem('sederunt:theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the theme is the system's.
}
