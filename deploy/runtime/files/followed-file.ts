import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../time/clock.ts";
import { sleep } from "../time/sleep.ts";
import { errnoOf } from "./errno.ts";

/**
 * The milliseconds between two looks: half of the second that a change may take, so that reading the file fits in as
 * well.
 */
const POLL_INTERVAL_MS = 500;

/** The milliseconds after which a look is given up: the file system does not answer, and may never again. */
const GIVE_UP_MS = 5_000;
/** The most looks that hang at a time: each holds one of the few threads on which Node reads files. */
const MOST_HANGING = 2;

/** What the reader of a file says while it reads. */
export type LookProgress = {
  /** Says that the file system has answered and is asked for more: the time until a look is given up begins again. */
  readonly onAnswer: () => void;
  /** Says that all has been read: where much is to be done with it, the look is not given up any more. */
  readonly onRead: () => void;
};

/** The settings of what is followed, and who reads it. */
export type FollowedFileOptions = {
  /** The path of the file, and those of other files in its folder that are read with it. */
  readonly files: readonly [string, ...string[]];
  /** The clock that says when to look again. */
  readonly clock: Pick<Clock, "after">;
  /**
   * Reads the files. It is called at the first look and after each look that found a change, and must not reject. It
   * resolves to "again" when what could not be read may be readable at the next look although nothing of it changed,
   * else to "taken". Once `signal` is aborted the look was given up, and what it reads yet is old: it must not be used.
   */
  readonly take: (signal: AbortSignal, progress: LookProgress) => Promise<"taken" | "again">;
  /** Called when a look was given up, as the file system did not answer for 5 s. Default: nobody is told. */
  readonly onHang?: () => void;
};

/**
 * Follows a file, which is read again whenever it changed. Its folder is watched, as a replaced file is another file;
 * and the file is looked at twice a second besides, as network file systems report nothing.
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

  /** Begins to follow the files; the first look comes after half a second at the latest. */
  constructor(options: FollowedFileOptions) {
    this.#options = options;
    this.#watch();
    this.#poll();
  }

  /** Looks at the file at once. Resolves when it has been taken as it is now, or had been before. Never rejects. */
  look(): Promise<void> {
    this.#askedAgain = this.#running !== undefined;
    this.#running ??= this.#lookUntilSame();
    return this.#running;
  }

  /** Stops following the file: `take` is not called any more. */
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
      // No folder yet, out of watches, or a file system without them: looking from time to time is enough.
    }
  }

  #poll(): void {
    if (this.#closed) return;
    this.#cancelPoll = this.#options.clock.after(POLL_INTERVAL_MS, () => {
      void this.look().then(() => this.#poll());
    });
  }

  /** Looks at the files, and again when a look was asked for meanwhile. */
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
    let answers = 0;
    const onAnswer = () => {
      answers += 1;
    };
    let onRead = () => {};
    const read = new Promise<void>((resolve) => {
      onRead = resolve;
    });
    const reading = this.#read(over.signal, { onAnswer, onRead });
    const answered = Promise.race([reading, read]).then(() => false);
    let hangs = true;
    for (let before = -1; hangs && before !== answers; ) {
      before = answers;
      const late = sleep(this.#options.clock, GIVE_UP_MS, over.signal).then(() => true);
      hangs = await Promise.race([answered, late]);
    }
    if (!hangs) await reading;
    over.abort();
    if (!hangs || this.#closed) return;
    this.#hanging += 1;
    void reading.then(() => {
      this.#hanging -= 1;
    });
    this.#seen = undefined;
    this.#options.onHang?.();
  }

  async #read(signal: AbortSignal, progress: LookProgress): Promise<void> {
    const now = (await Promise.all(this.#options.files.map(fingerprint))).join(" ");
    if (this.#closed || signal.aborted || now === this.#seen) return;
    const taken = await this.#options.take(signal, progress);
    if (!signal.aborted) this.#seen = taken === "taken" ? now : undefined;
  }
}

/**
 * Returns a text that differs after every replacement and every write of a file; for a file that cannot be looked at,
 * the code of the error.
 */
async function fingerprint(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs, mode].join(":");
  } catch (error) {
    return errnoOf(error);
  }
}
