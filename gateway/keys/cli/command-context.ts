import type { Command } from "commander";
import * as z from "zod";
import { ConfigError, loadConfig } from "../../../deploy/runtime/config/load-config.ts";
import { stateSchema } from "../../state/state-settings.ts";
import { fileKeyVault } from "../file-key-vault.ts";
import { type MintedKey, summarize } from "../key-admin.ts";
import type { KeySetChanger } from "../key-file.ts";
import type { KeyRecord } from "../key-record.ts";
import { keysSchema } from "../key-settings.ts";
import type { KeyVault, VaultKeys } from "../key-vault.ts";
import { openRedisKeyVault } from "../redis/redis-key-vault.ts";
import { keyText } from "./text.ts";

/** The time that a command waits for another one to finish its change, in milliseconds. */
const LOCK_WAIT_MS = 5000;

/** The exit codes of the program. */
export const EXIT = { ok: 0, other: 1, usage: 2, notFound: 3, store: 4 } as const;

/** The outer world of a command. */
export type KeysIo = {
  /** Standard input, in chunks of text or bytes. */
  readonly stdin: AsyncIterable<string | Uint8Array>;
  /** Writes results to standard output. */
  readonly out: (text: string) => void;
  /** Writes notes and errors to standard error. */
  readonly err: (text: string) => void;
  /** The environment variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Returns the wall clock in milliseconds since the epoch. */
  readonly nowMs: () => number;
};

/**
 * The options that every command takes: `file` is the path of the key file, `config` that of a gateway's configuration
 * which says where its keys stand instead, `json` asks for JSON instead of tables.
 */
export type GlobalOptions = { readonly file: string; readonly config?: string; readonly json: boolean };

/** What is read of a gateway's configuration; the rest is none of this program's business. */
const configSchema = z.looseObject({ keys: keysSchema, state: stateSchema });

/** What every command has at hand. */
export class CliContext {
  /** The outer world of the command. */
  readonly io: KeysIo;
  readonly #program: Command;
  #vault: Promise<KeyVault> | undefined;
  /** The exit code of the command when nothing is thrown; 0 unless it sets another. */
  exitCode: number = EXIT.ok;

  constructor(program: Command, io: KeysIo) {
    this.#program = program;
    this.io = io;
  }

  /** The options that were given before the command's name. */
  get options(): GlobalOptions {
    return this.#program.opts<GlobalOptions>();
  }

  /** Opens the keys that the options name, once. Rejects with what `isKeyStoreError` knows, and with `ConfigError`. */
  vault(): Promise<KeyVault> {
    this.#vault ??= this.#openVault();
    return this.#vault;
  }

  /** Reads all keys, and says what is amiss with them. Throws what `isKeyStoreError` knows. */
  async read(): Promise<VaultKeys> {
    const found = await (await this.vault()).read();
    for (const text of found.amiss) this.#warn(text);
    return found;
  }

  /** Changes keys. With `create` a missing store is made. Throws what `isKeyStoreError` knows, and what `by` throws. */
  async update<T>(create: boolean, by: KeySetChanger<T>): Promise<T> {
    return await (await this.vault()).update(create, by);
  }

  /** Lets go of what was opened. */
  async close(): Promise<void> {
    (await this.#vault?.catch(() => undefined))?.close();
  }

  /** Returns a signal that is aborted when the key file's lock has been waited for long enough, after 5 s. */
  lockSignal(): AbortSignal {
    return AbortSignal.timeout(LOCK_WAIT_MS);
  }

  /** Prints `value` as JSON with `--json`, otherwise `text()`. */
  print(value: object, text: () => string): void {
    this.io.out(this.options.json ? `${JSON.stringify(value)}\n` : text());
  }

  /** Prints one key without its secret. */
  printRecord(record: KeyRecord): void {
    const summary = summarize(record, this.io.nowMs());
    this.print(summary, () => keyText(summary));
  }

  /** Prints a key that was just made, secret included. */
  printMinted({ record, key }: MintedKey): void {
    const summary = summarize(record, this.io.nowMs());
    this.print({ key, ...summary }, () => `${key}\n\n${keyText(summary)}`);
    if (!this.options.json) this.io.err("Keep the key now: it is not stored and cannot be shown again.\n");
  }

  async #openVault(): Promise<KeyVault> {
    const { file, config } = this.options;
    if (config === undefined) return fileKeyVault(file);
    const { keys, state } = loadConfig(configSchema, config, this.io.env);
    if (keys.file !== undefined) return fileKeyVault(keys.file);
    if (!keys.redis || !state.redis) throw new ConfigError(`${config}: keys.redis: state.redis says where that is`);
    return await openRedisKeyVault(state.redis, keys.redis.pepperFile, (text) => this.#warn(text));
  }

  #warn(text: string): void {
    this.io.err(`warning: ${text}\n`);
  }
}
