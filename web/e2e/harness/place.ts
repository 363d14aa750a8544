/** A server with the app before it. */
import { Api } from './apiClient.js';
import { type Front, openFront } from './appFront.js';
import { SederuntServer, type ServerOptions } from './sederuntServer.js';
import type { StoreKind } from './store.js';

export interface Place {
  /** Where a browser finds the app. */
  url: string;
  api: Api;
}

export interface OwnPlace extends Place {
  server: SederuntServer;
  close: () => Promise<void>;
}

/** Puts the app before a server that already runs. */
export async function placeOf(server: SederuntServer, appFolder: string | null, key?: string): Promise<OwnPlace> {
  let front: Front;
  try {
    front = await openFront(server.url, appFolder);
  } catch (error) {
    await server.stop();
    throw error;
  }
  const close = async () => {
    await server.stop();
    await front.close();
  };
  return { url: front.url, api: new Api(server.url, key), server, close };
}

export async function openPlace(
  kind: StoreKind,
  appFolder: string | null,
  options: ServerOptions = {},
): Promise<OwnPlace> {
  return placeOf(await SederuntServer.start(kind, options), appFolder);
}
