import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Clock } from "../time/clock.ts";
import { FileError } from "./file-error.ts";
import { FollowedFile } from "./followed-file.ts";
import { readPrivateFileSync } from "./private-file.ts";

/**
 * Files of certificates or keys that cannot be read or do not match; the message names the key of the configuration.
 */
export class PemError extends Error {
  override readonly name = "PemError";
}

/** PEM texts that a TLS peer presents (`cert`, `key`) and trusts (`ca`). A part without a file is absent. */
export type Pems = { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };

/** A file of certificates or of a key. */
export type PemFile = {
  /** The part of TLS that uses the file. */
  readonly part: keyof Pems;
  /** Key of the file in the configuration, for messages. */
  readonly key: string;
  /** Undefined if the configuration names no file. */
  readonly file: string | undefined;
};

export type FollowedPemsOptions = {
  /** Path of the section in the configuration, for messages. */
  readonly at: string;
  /** The files; the first one is required. */
  readonly files: readonly [PemFile & { readonly file: string }, ...PemFile[]];
  readonly clock: Pick<Clock, "after">;
  /**
   * Called when files have changed: with undefined when they were loaded, else with why they are unusable; the last
   * good ones stay in use then.
   */
  readonly onReload: (fault: string | undefined) => void;
};

/** Certificates and keys, which are reloaded when their files change and match. */
export class FollowedPems {
  readonly #options: FollowedPemsOptions;
  readonly #followed: FollowedFile;
  #now: Pems;
  #fault: string | undefined;
  #listener: (pems: Pems) => void = () => {};

  /** Reads the files and starts following them. Throws `PemError` if they are unusable now. */
  constructor(options: FollowedPemsOptions) {
    this.#options = options;
    this.#now = readPems(options);
    const [{ file }, ...rest] = options.files;
    const others = rest.flatMap((other) => other.file ?? []);
    this.#followed = new FollowedFile({
      files: [file, ...others],
      clock: options.clock,
      take: async () => this.#take(),
    });
  }

  /** The last matching contents of the files. */
  get now(): Pems {
    return this.#now;
  }

  /** Sets the only listener, which is called with the texts for new connections after each change. */
  onChange(listener: (pems: Pems) => void): void {
    this.#listener = listener;
  }

  close(): void {
    this.#followed.close();
  }

  #take(): "taken" | "again" {
    const before = this.#fault;
    try {
      const pems = readPems(this.#options);
      this.#fault = undefined;
      const isNew = !isSame(pems, this.#now);
      this.#now = pems;
      if (isNew) this.#listener(pems);
      if (isNew || before !== undefined) this.#options.onReload(undefined);
    } catch (error) {
      if (!(error instanceof PemError)) throw error;
      this.#fault = error.message;
      if (this.#fault !== before) this.#options.onReload(this.#fault);
    }
    return this.#fault === undefined ? "taken" : "again";
  }
}

function readPems({ at, files }: Pick<FollowedPemsOptions, "at" | "files">): Pems {
  const pems: { -readonly [Part in keyof Pems]: Pems[Part] } = {};
  for (const { part, key, file } of files) if (file !== undefined) pems[part] = readPem(part, file, `${at}.${key}`);
  try {
    createSecureContext(pems);
  } catch (cause) {
    throw new PemError(`${at}: certificate, key and authority do not fit together or are not PEM`, { cause });
  }
  return pems;
}

/** Reads one file. A key that other users can read or replace is refused. */
function readPem(part: keyof Pems, file: string, name: string): Buffer {
  try {
    const pem = part === "key" ? readPrivateFileSync(file) : readFileSync(file);
    if (pem) return pem;
  } catch (cause) {
    if (cause instanceof FileError && cause.fault === "permissions")
      throw new PemError(`${name}: is open to other users, or belongs to one; its mode should be 0600`, { cause });
    throw new PemError(`${name}: cannot be read`, { cause });
  }
  throw new PemError(`${name}: cannot be read`);
}

function isSame(one: Pems, other: Pems): boolean {
  const same = (a: Buffer | undefined, b: Buffer | undefined) => (a && b ? a.equals(b) : a === b);
  return same(one.ca, other.ca) && same(one.cert, other.cert) && same(one.key, other.key);
}
