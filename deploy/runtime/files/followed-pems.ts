import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Clock } from "../time/clock.ts";
import { FileError } from "./file-error.ts";
import { FollowedFile } from "./followed-file.ts";
import { readPrivateFileSync } from "./private-file.ts";

/**
 * The error for files of certificates or keys that cannot be read or do not fit together; its message names the key of
 * the configuration.
 */
export class PemError extends Error {
  override readonly name = "PemError";
}

/** The PEM texts that a TLS peer shows (`cert`, `key`) and trusts (`ca`). A part that has no file is absent. */
export type Pems = { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };

/** A file of certificates or of a key, and the use that it is for. */
export type PemFile = {
  /** The part of TLS that the file is for. */
  readonly part: keyof Pems;
  /** The key in the configuration that names the file, for messages. */
  readonly key: string;
  /** The path of the file; undefined when the configuration names none. */
  readonly file: string | undefined;
};

/** The settings of which files are followed, and who is told. */
export type FollowedPemsOptions = {
  /** The path, in the configuration, of the section that the keys of the files stand in, for messages. */
  readonly at: string;
  /** The files, the first of which the configuration has to name. */
  readonly files: readonly [PemFile & { readonly file: string }, ...PemFile[]];
  /** The clock that says when to look at the files again. */
  readonly clock: Pick<Clock, "after">;
  /**
   * Called when files have changed: with undefined when they were taken, else with why they cannot be used, and then
   * the last good ones stay.
   */
  readonly onReload: (fault: string | undefined) => void;
};

/** Keeps certificates and keys, which are read again whenever their files change and fit together. */
export class FollowedPems {
  readonly #options: FollowedPemsOptions;
  readonly #followed: FollowedFile;
  #now: Pems;
  #fault: string | undefined;
  #listener: (pems: Pems) => void = () => {};

  /** Reads the files and begins to follow them. Throws `PemError` when they cannot be used now. */
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

  /** The texts that the files held when they last fitted together. */
  get now(): Pems {
    return this.#now;
  }

  /** Sets the only listener, which is called with what new connections are to use whenever that has changed. */
  onChange(listener: (pems: Pems) => void): void {
    this.#listener = listener;
  }

  /** Stops following the files. */
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

/** Reads one file. A key that other users could read or have put there is no secret, and is not taken. */
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
