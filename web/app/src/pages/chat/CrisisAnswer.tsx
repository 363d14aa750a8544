/** An answer to words of distress: who helps comes first, as links to call or open; then the words. */
import { ExternalLink, Phone } from 'lucide-react';
import { Markdown } from '../../markdown/Markdown.js';
import { type HelpPlace, readCrisisAnswer } from './crisisResources.js';

function Place({ place }: { place: HelpPlace }) {
  const isPhone = place.href?.startsWith('tel:') === true;
  const Icon = isPhone ? Phone : ExternalLink;
  if (place.href === null) {
    return (
      <span dir="auto">
        {place.name}: {place.contact}
      </span>
    );
  }
  return (
    <a
      href={place.href}
      {...(isPhone ? {} : { target: '_blank', rel: 'noopener noreferrer' })}
      className="flex min-h-9 items-center gap-2 font-semibold underline pointer-coarse:min-h-11"
    >
      <Icon size={16} aria-hidden="true" />
      <span dir="auto" className="wrap-anywhere">
        {place.name}: {place.contact}
      </span>
    </a>
  );
}

export function HelpPlaces({ places }: { places: readonly HelpPlace[] }) {
  if (places.length === 0) return null;
  return (
    <section aria-label="Who helps now" className="rounded-card border border-edge bg-raised px-4 py-2">
      <p className="text-row text-soft">Who helps now</p>
      <ul>
        {places.map((place) => (
          <li key={`${place.name}:${place.contact}`}>
            <Place place={place} />
          </li>
        ))}
      </ul>
    </section>
  );
}

export function CrisisAnswer({ text }: { text: string }) {
  const { places, words } = readCrisisAnswer(text);
  return (
    <div className="grid gap-3">
      <HelpPlaces places={places} />
      <Markdown text={words} />
    </div>
  );
}
