import type { Command } from "commander";
import { type MintedKey, summarize } from "../key-admin.ts";
import { type KeyFile, readKeyFile } from "../key-file.ts";
import type { KeyRecord } from "../key-record.ts";
import { KeyStoreError } from "../key-store-error.ts";
import { keyText } from "./text.ts";

/** How long a command waits for another one to finish its change, in milliseconds. */
const LOCK_WAIT_MS = 5000;

export const EXIT = { ok: 0, other: 1, usage: 2, notFound: 3, store: 4 } as const;

/** The outer world of a command. */
export type KeysIo = {
  readonly stdin: AsyncIterable<string | Uint8Array>;
  /** Results. */
  readonly out: (text: string) => void;
  /** Notes and errors. */
  readonly err: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Wall-clock time in milliseconds since the epoch. */
  readonly nowMs: () => number;
};

/** Options of every command. */
export type GlobalOptions = { readonly file: string; readonly json: boolean };

/** What every command has at hand. */
export class CliContext {
  readonly io: KeysIo;
  readonly #program: Command;
  /** What the command ends with when nothing is thrown. */
  exitCode: number = EXIT.ok;

  constructor(program: Command, io: KeysIo) {
    this.#program = program;
    this.io = io;
  }

  get options(): GlobalOptions {
    return this.#program.opts<GlobalOptions>();
  }

  /** Reads the key file. Throws what `isKeyStoreError` knows. */
  async read(): Promise<KeyFile> {
    const { file } = this.options;
    const found = await readKeyFile(file);
    if (found === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
    return found;
  }

  /** For how long to wait for the key file's lock. */
  lockSignal(): AbortSignal {
    return AbortSignal.timeout(LOCK_WAIT_MS);
  }

  /** The value as JSON, or as text where that was not asked for. */
  print(value: object, text: () => string): void {
    this.io.out(this.options.json ? `${JSON.stringify(value)}\n` : text());
  }

  printRecord(record: KeyRecord): void {
    const summary = summarize(record, this.io.nowMs());
    this.print(summary, () => keyText(summary));
  }

  printMinted({ record, key }: MintedKey): void {
    const summary = summarize(record, this.io.nowMs());
    this.print({ key, ...summary }, () => `${key}\n\n${keyText(summary)}`);
    if (!this.options.json) this.io.err("Keep the key now: it is not stored and cannot be shown again.\n");
  }
}
