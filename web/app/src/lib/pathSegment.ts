/** The name of a thing in the browser's path. The router decodes paths only in part, so that an id with `:`, `/` or `%` would be another. */

/** What stands after `prefix`, up to the next slash, decoded; null where there is nothing. */
export function segmentAfter(prefix: string, path: string = location.pathname): string | null {
  if (!path.startsWith(prefix)) return null;
  const segment = path.slice(prefix.length).split('/', 1)[0] ?? '';
  if (segment === '') return null;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
