import { type FSWatcher, readFileSync, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { createSecureContext } from "node:tls";
import type { Clock } from "../time/clock.ts";
import { errnoOf, FileError, readPrivateFileSync } from "./private-file.ts";

/** Milliseconds between two polls: half of the second within which a change takes effect. */
const POLL_INTERVAL_MS = 500;

/** Milliseconds until a read is abandoned: the file system does not answer, and may never again. */
const GIVE_UP_MS = 15_000;
/** Most hanging reads: each occupies one of the few threads on which Node reads files. */
const MOST_HANGING = 2;

export type FollowedFileOptions = {
  readonly files: readonly [string, ...string[]];
  readonly clock: Pick<Clock, "after">;
  /**
   * Reads the files. It is called at the first poll and after each detected change, and must not reject. It resolves to
   * "again" if an unreadable file may become readable at the next poll without a change, else to "taken". Once `signal`
   * is aborted the read was abandoned, and its result must not be used; a read is not abandoned any more once `onRead` is
   * called, because the file system is done and only parsing takes long.
   */
  readonly take: (signal: AbortSignal, onRead: () => void) => Promise<"taken" | "again">;
  /** Called when a read was abandoned because the file system did not answer for 15 s. Default: not reported. */
  readonly onHang?: () => void;
};

/**
 * Follows a file and reads it again after each change. It watches the folder, because a replaced file is another file;
 * and it polls twice a second, because network file systems report no changes.
 */
export class FollowedFile {
  readonly #options: FollowedFileOptions;
  #seen: string | undefined;
  #watcher: FSWatcher | undefined;
  #cancelPoll: () => void = () => {};
  #running: Promise<void> | undefined;
  #hanging = 0;
  #askedAgain = false;
  #closed = false;

  constructor(options: FollowedFileOptions) {
    this.#options = options;
    this.#watch();
    this.#poll();
  }

  /** Polls the file at once. Resolves when its current content was taken, now or before. Never rejects. */
  look(): Promise<void> {
    this.#askedAgain = this.#running !== undefined;
    this.#running ??= this.#lookUntilSame();
    return this.#running;
  }

  close(): void {
    this.#closed = true;
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#cancelPoll();
  }

  #watch(): void {
    try {
      const watcher = watch(dirname(this.#options.files[0]), { persistent: false }, () => void this.look());
      watcher.on("error", () => watcher.close());
      this.#watcher = watcher;
    } catch {
      // No folder yet, no watches left, or a file system without them: polling is sufficient.
    }
  }

  readonly #poll = (): void => {
    if (this.#closed) return;
    this.#cancelPoll = this.#options.clock.after(POLL_INTERVAL_MS, () => void this.look().then(this.#poll));
  };

  /** Polls the files, and again if a poll was requested meanwhile. */
  async #lookUntilSame(): Promise<void> {
    do {
      this.#askedAgain = false;
      await this.#lookOnce();
    } while (this.#askedAgain && !this.#closed);
    this.#running = undefined;
  }

  async #lookOnce(): Promise<void> {
    if (this.#hanging === MOST_HANGING) return;
    const over = new AbortController();
    await new Promise<void>((resolve) => {
      const cancel = this.#options.clock.after(GIVE_UP_MS, () => {
        over.abort();
        if (!this.#closed) this.#options.onHang?.();
        this.#hanging += 1;
        this.#seen = undefined;
        resolve();
      });
      void this.#read(over.signal, cancel).then(() => {
        cancel();
        if (over.signal.aborted) this.#hanging -= 1;
        resolve();
      });
    });
  }

  async #read(signal: AbortSignal, onRead: () => void): Promise<void> {
    const now = (await Promise.all(this.#options.files.map(fingerprint))).join(" ");
    if (this.#closed || signal.aborted || now === this.#seen) return;
    const taken = await this.#options.take(signal, onRead);
    if (!signal.aborted) this.#seen = taken === "taken" ? now : undefined;
  }
}

/** A text that changes with every replacement and write of a file, or the code of an error. */
async function fingerprint(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs, mode].join(":");
  } catch (error) {
    return errnoOf(error);
  }
}

/** Certificates or keys that cannot be read or do not match; the message names the key of the configuration. */
export class PemError extends Error {
  override readonly name = "PemError";
}

/** PEM texts that a TLS peer presents (`cert`, `key`) and trusts (`ca`). A part without a file is absent. */
export type Pems = { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer };

export type PemFile = {
  readonly part: keyof Pems;
  readonly key: string;
  readonly file: string | undefined;
};

export type FollowedPemsOptions = {
  /** Path of the section in the configuration, for messages. */
  readonly at: string;
  /** The files; the first one is required. */
  readonly files: readonly [PemFile & { readonly file: string }, ...PemFile[]];
  readonly clock: Pick<Clock, "after">;
  /** Called after a change: with undefined when loaded, else with why not; the last good ones stay in use then. */
  readonly onReload: (fault: string | undefined) => void;
};

/** Certificates and keys, which are reloaded when their files change and match. */
export class FollowedPems {
  readonly #options: FollowedPemsOptions;
  readonly #followed: FollowedFile;
  now: Pems;
  #fault: string | undefined;
  #listener: (pems: Pems) => void = () => {};

  constructor(options: FollowedPemsOptions) {
    this.#options = options;
    this.now = readPems(options);
    const [{ file }, ...rest] = options.files;
    const others = rest.flatMap((other) => other.file ?? []);
    this.#followed = new FollowedFile({
      files: [file, ...others],
      clock: options.clock,
      take: async () => this.#take(),
    });
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
      const isNew = !isSame(pems, this.now);
      this.now = pems;
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
