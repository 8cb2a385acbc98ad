import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../time/clock.ts";
import { sleep } from "../time/sleep.ts";
import { errnoOf } from "./file-error.ts";

/**
 * Milliseconds between two polls: half of the second within which a change takes effect, because reading the file takes
 * time, too.
 */
const POLL_INTERVAL_MS = 500;

/** Milliseconds until a read is abandoned: the file system does not answer, and may never again. */
const GIVE_UP_MS = 5_000;
/** Most hanging reads: each occupies one of the few threads on which Node reads files. */
const MOST_HANGING = 2;

/** Reports the progress of a read. */
export type LookProgress = {
  /** The file system has answered and is asked for more: the time limit of the read starts again. */
  readonly onAnswer: () => void;
  /** The file system is done: the read is not abandoned any more, even if parsing takes long. */
  readonly onRead: () => void;
};

export type FollowedFileOptions = {
  /** The path of the file, and those of other files in its folder that are read with it. */
  readonly files: readonly [string, ...string[]];
  readonly clock: Pick<Clock, "after">;
  /**
   * Reads the files. It is called at the first poll and after each detected change, and must not reject. It resolves to
   * "again" if an unreadable file may become readable at the next poll without a change, else to "taken". Once `signal`
   * is aborted the read was abandoned, and its result is outdated: it must not be used.
   */
  readonly take: (signal: AbortSignal, progress: LookProgress) => Promise<"taken" | "again">;
  /** Called when a read was abandoned because the file system did not answer for 5 s. Default: not reported. */
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

  /** Starts following the files; the first poll is within half a second. */
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
      // No folder yet, no watches left, or a file system without them: polling is sufficient.
    }
  }

  #poll(): void {
    if (this.#closed) return;
    this.#cancelPoll = this.#options.clock.after(POLL_INTERVAL_MS, () => {
      void this.look().then(() => this.#poll());
    });
  }

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
 * Returns a text that changes with every replacement and every write of a file; for an inaccessible file, the code of
 * the error.
 */
async function fingerprint(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs, mode].join(":");
  } catch (error) {
    return errnoOf(error);
  }
}
