import { closeSync, openSync, readSync } from "node:fs";

/** What Linux says of a thread's times in one line: so many nanoseconds it ran, and so many it waited for a processor. */
const TIMES = /^\d+ (\d+) /;
const NS_PER_MS = 1e6;

/**
 * For how long dear work of those who cause much leaves the processors to others, for each millisecond for which threads had
 * to wait for one meanwhile. It is much because whoever else runs on the machine waits at each of the many times that it has
 * something to do.
 */
const REST = 8;

/** Returns for how long work is to rest behind `ms` milliseconds of it, in which threads waited `waitedMs` for a processor. */
export function restBehind(ms: number, waitedMs: number): number {
  // What is measured seldom has waits of before in it.
  return REST * Math.max(0, Math.min(ms, waitedMs));
}

/**
 * Knows how long threads of this process have waited for a processor while others had all of them. Where the system does not
 * say, it is as if they never waited.
 */
export class ProcessorWaits {
  #files: readonly number[];
  readonly #buffer = Buffer.alloc(128);
  #beforeMs = 0;

  /** Begins to follow the threads with these ids, which are to live until `close`. */
  constructor(threads: readonly number[]) {
    this.#files = opened(threads);
    this.#beforeMs = this.totalMs();
  }

  /** Returns for how long the threads have waited since this was asked last, all of them together, in milliseconds. */
  sinceLastMs(): number {
    const beforeMs = this.#beforeMs;
    this.#beforeMs = this.totalMs();
    return this.#beforeMs - beforeMs;
  }

  /** Returns for how long the threads have waited since they began, all of them together, in milliseconds. */
  totalMs(): number {
    let totalMs = 0;
    for (const file of this.#files) {
      const length = readSync(file, this.#buffer, 0, this.#buffer.length, 0);
      totalMs += Number(TIMES.exec(this.#buffer.toString("latin1", 0, length))?.[1] ?? 0) / NS_PER_MS;
    }
    return totalMs;
  }

  /** Follows them no more: from now on it is as if they never waited. A second call does nothing. */
  close(): void {
    for (const file of this.#files) closeSync(file);
    this.#files = [];
  }
}

function opened(threads: readonly number[]): readonly number[] {
  try {
    return threads.map((thread) => openSync(`/proc/self/task/${thread}/schedstat`, "r"));
  } catch {
    // No Linux, or one that does not keep account.
    return [];
  }
}
