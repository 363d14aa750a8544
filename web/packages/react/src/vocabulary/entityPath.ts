/** Which page shows an entity, by its path. */

export interface EntityRef {
  entityId: string;
  entityType: string;
}

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const TENANT_PATH = new RegExp(`^/t/[^/]+/([^/]+)/(${UUID})/?$`, 'i');
const PLAIN_PATH = new RegExp(`^/entities/(${UUID})/?$`, 'i');
/** The type where the path does not say it. */
const UNTYPED = 'entity';

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** The path without its query and fragment, which may hold anything. */
export function barePath(path: string): string {
  return path.split(/[?#]/, 1)[0] ?? '';
}

/**
 * The entity of `/t/{tenant}/{type}/{uuid}` or `/entities/{uuid}`; null for every other path, and for ids that are no UUID.
 */
export function extractEntityRefFromPath(path: string): EntityRef | null {
  const bare = barePath(path);
  const plain = PLAIN_PATH.exec(bare)?.[1];
  if (plain !== undefined) return { entityId: plain.toLowerCase(), entityType: UNTYPED };
  const [, type, id] = TENANT_PATH.exec(bare) ?? [];
  if (type === undefined || id === undefined) return null;
  const entityType = decoded(type);
  return entityType === null ? null : { entityId: id.toLowerCase(), entityType };
}
