/** A real server, started from the binary on a store of its own; it can be killed and started again on the same port. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { BINARY } from './paths.js';
import { freePort } from './ports.js';
import { newStore, type Store, type StoreKind } from './store.js';
import { until } from './waiting.js';

const run = promisify(execFile);
const START_MS = 20_000;
const LOG_LINES_MAX = 40;

/** Without the variables of the walks: the server refuses settings that it does not know. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SEDERUNT_')));

export interface ServerOptions {
  /** Further arguments of `sederunt serve`. */
  args?: readonly string[];
}

export class SederuntServer {
  readonly url: string;
  readonly #store: Store;
  readonly #args: readonly string[];
  #process: ChildProcess | undefined;
  #log: string[] = [];

  private constructor(store: Store, port: number, args: readonly string[]) {
    this.#store = store;
    this.url = `http://127.0.0.1:${port}`;
    this.#args = ['serve', '--listen', `127.0.0.1:${port}`, '--store', store.place, ...args];
  }

  /** A store and a port, and no process yet. */
  static async prepare(kind: StoreKind, { args = [] }: ServerOptions = {}): Promise<SederuntServer> {
    if (!existsSync(BINARY)) throw new Error(`There is no server at ${BINARY}: run cargo build, or set SEDERUNT_BIN.`);
    return new SederuntServer(await newStore(kind), await freePort(), args);
  }

  static async start(kind: StoreKind, options: ServerOptions = {}): Promise<SederuntServer> {
    const server = await SederuntServer.prepare(kind, options);
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    const child = this.spawn();
    await until(
      `the server answers at ${this.url}; its log:\n${this.log()}`,
      () => {
        if (child.exitCode !== null) throw new Error(`The server has ended:\n${this.log()}`);
        return fetch(`${this.url}/readyz`).then(
          (answer) => answer.ok,
          () => false,
        );
      },
      START_MS,
    );
  }

  /** Starts the process, and does not wait until it answers. */
  spawn(): ChildProcess {
    const child = spawn(BINARY, this.#args, { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
    const hear = (bytes: Buffer) => {
      this.#log = [...this.#log, ...bytes.toString().split('\n').filter(Boolean)].slice(-LOG_LINES_MAX);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    this.#process = child;
    return child;
  }

  log(): string {
    return this.#log.join('\n');
  }

  /** Ends the process as a power failure would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Ends the process and removes its store. */
  async stop(): Promise<void> {
    await this.#end('SIGKILL');
    await this.#store.remove();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }

  /** Runs a command of the binary on this server's store, and returns the JSON that it prints. */
  async command(...args: readonly string[]): Promise<unknown> {
    const { stdout } = await run(BINARY, [...args, '--json', '--store', this.#store.place], { env: ENVIRONMENT });
    return JSON.parse(stdout);
  }
}
