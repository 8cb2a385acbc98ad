import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The time in which garbage is collected at most once, in milliseconds. */
const MIN_INTERVAL_MS = 10_000;
/**
 * The bytes of bodies, gone since the last collection, that are worth one: V8 keeps what they took while nothing asks
 * for it.
 */
const WORTHWHILE_BYTES = 64 * 1024 * 1024;

/**
 * Decides when garbage is collected beside V8's own schedule, which counts on memory being free: when the process is
 * short of it, and when big bodies have come and gone. A collection holds the event loop for some tens of milliseconds.
 */
export class Garbage {
  readonly #collect: () => void;
  #collectedMs = Number.NEGATIVE_INFINITY;
  #collectedBytes = 0;

  /** Makes a decider that has not collected yet. `collect` collects all garbage; by default V8 is asked to. */
  constructor(collect: () => void = collectGarbage) {
    this.#collect = collect;
  }

  /**
   * Looks whether there is something to collect at the monotonic time `nowMs`. `short` says that memory is short;
   * `goneBytes` is the size of all bodies that have come and gone since the start, `heldBytes` that of those on their
   * way now.
   */
  look(nowMs: number, short: boolean, { goneBytes, heldBytes }: { goneBytes: number; heldBytes: number }): void {
    const sinceBytes = goneBytes - this.#collectedBytes;
    // While as much again is under way, the next look finds more.
    const worthwhile = sinceBytes >= WORTHWHILE_BYTES && heldBytes < WORTHWHILE_BYTES;
    if (nowMs - this.#collectedMs < MIN_INTERVAL_MS || !(short || worthwhile)) return;
    this.#collectedMs = nowMs;
    this.#collectedBytes = goneBytes;
    this.#collect();
  }
}

/** Has V8 collect all garbage. Its function for that is shown to nobody but us. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof collect === "function") collect();
}
