import type { Command } from "commander";
import * as z from "zod";
import { ConfigError, loadConfig } from "../../../deploy/runtime/config/load-config.ts";
import { stateSchema } from "../../state/state-settings.ts";
import { FileKeyVault } from "../file-key-vault.ts";
import { type MintedKey, summarize } from "../key-admin.ts";
import type { KeyRecord } from "../key-record.ts";
import { keysSchema } from "../key-settings.ts";
import type { KeyVault, VaultKeys } from "../key-vault.ts";
import { openRedisKeyVault } from "../redis/redis-key-vault.ts";
import { keyText } from "./text.ts";

export const EXIT = { ok: 0, other: 1, usage: 2, notFound: 3, store: 4 } as const;

export type KeysIo = {
  readonly stdin: AsyncIterable<string | Uint8Array>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly nowMs: () => number;
};

/** `file`: path of the key file; `config`: of a gateway configuration with the store; `json`: JSON, no tables. */
export type GlobalOptions = { readonly file: string; readonly config?: string; readonly json: boolean };

const configSchema = z.looseObject({ keys: keysSchema, state: stateSchema });

export class CliContext {
  readonly io: KeysIo;
  readonly #program: Command;
  #vault: Promise<KeyVault> | undefined;
  exitCode: number = EXIT.ok;

  constructor(program: Command, io: KeysIo) {
    this.#program = program;
    this.io = io;
  }

  get options(): GlobalOptions {
    return this.#program.opts<GlobalOptions>();
  }

  /** Opens the selected keys once. Rejects with an error that `isKeyStoreError` accepts, or with `ConfigError`. */
  vault(): Promise<KeyVault> {
    this.#vault ??= this.#openVault();
    return this.#vault;
  }

  /** Reads the keys, or at least those with these ids, and prints their faults. */
  async read(ids?: readonly string[]): Promise<VaultKeys> {
    const found = await (await this.vault()).read(ids);
    for (const { message } of found.amiss) this.#warn(message);
    return found;
  }

  async close(): Promise<void> {
    (await this.#vault?.catch(() => undefined))?.close();
  }

  print(value: object, text: () => string): void {
    this.io.out(this.options.json ? `${JSON.stringify(value)}\n` : text());
  }

  /** Prints a record alone, and several as a list. */
  printRecords(records: readonly KeyRecord[]): void {
    const summaries = records.map((record) => summarize(record, this.io.nowMs()));
    const [first] = summaries;
    this.print(summaries.length === 1 && first ? first : summaries, () => summaries.map(keyText).join("\n"));
  }

  printMinted({ record, key }: MintedKey): void {
    const summary = summarize(record, this.io.nowMs());
    this.print({ key, ...summary }, () => `${key}\n\n${keyText(summary)}`);
    if (!this.options.json) this.io.err("Keep the key now: it is not stored and cannot be shown again.\n");
  }

  async #openVault(): Promise<KeyVault> {
    const { file, config } = this.options;
    if (config === undefined) return new FileKeyVault(file);
    const { keys, state } = loadConfig(configSchema, config, this.io.env);
    if (keys.file !== undefined) return new FileKeyVault(keys.file);
    if (!keys.redis || !state.redis) throw new ConfigError(`${config}: keys.redis: state.redis says where that is`);
    return await openRedisKeyVault(state.redis, keys.redis.pepperFile, (text) => this.#warn(text));
  }

  #warn(text: string): void {
    this.io.err(`warning: ${text}\n`);
  }
}
