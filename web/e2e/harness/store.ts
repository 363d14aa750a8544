/** Empty stores for servers: a directory for SQLite, or a new database of the PostgreSQL server that the tests use. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export type StoreKind = 'sqlite' | 'postgres';

export interface Store {
  /** What `--store` takes. */
  place: string;
  remove: () => Promise<void>;
}

const run = promisify(execFile);

export const POSTGRES = process.env['SEDERUNT_TEST_POSTGRES'];

async function sqlite(): Promise<Store> {
  const place = await mkdtemp(join(tmpdir(), 'sederunt-walk-'));
  return { place, remove: () => rm(place, { recursive: true, force: true }) };
}

let databases = 0;

async function postgres(): Promise<Store> {
  if (POSTGRES === undefined) throw new Error('Set SEDERUNT_TEST_POSTGRES, as scripts/with-postgres does.');
  const server = POSTGRES;
  const name = `walk_${process.pid}_${Date.now()}_${databases++}`;
  const sql = (statement: string) =>
    run('psql', ['--quiet', '--no-psqlrc', '--dbname', server, '--command', statement]);
  await sql(`create database ${name}`);
  const place = new URL(server);
  place.pathname = `/${name}`;
  return { place: place.href, remove: async () => void (await sql(`drop database ${name} with (force)`)) };
}

export function newStore(kind: StoreKind): Promise<Store> {
  return kind === 'sqlite' ? sqlite() : postgres();
}
