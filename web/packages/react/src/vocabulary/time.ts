/** Times in words. */

const MINUTE_MS = 60_000;

/** How long, in at most two units: `40 s`, `12 min`, `2 h 5 min`, `3 d 4 h`. A clock that is behind counts as no time. */
export function durationText(ms: number): string {
  const seconds = Number.isFinite(ms) ? Math.max(0, Math.floor(ms / 1000)) : 0;
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const two = (big: string, rest: number, unit: string) => (rest === 0 ? big : `${big} ${rest} ${unit}`);
  if (days > 0) return two(`${days} d`, hours % 24, 'h');
  if (hours > 0) return two(`${hours} h`, minutes % 60, 'min');
  return minutes > 0 ? `${minutes} min` : `${seconds} s`;
}

/** How long ago, and for the last minute `now`. */
export function agoText(at: string, now: number): string {
  const passed = now - Date.parse(at);
  return Number.isNaN(passed) || passed < MINUTE_MS ? 'now' : `${durationText(passed)} ago`;
}

/** The time of day of an event, or nothing where the time cannot be read. */
export function clockText(at: string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? '' : time.toLocaleTimeString(undefined, { hour12: false });
}
