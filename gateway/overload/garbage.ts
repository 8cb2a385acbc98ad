import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The time in which garbage is collected at most once, in milliseconds. */
const MIN_INTERVAL_MS = 10_000;
/** The bytes of bodies on their way from which it is too early to collect: what they will leave behind is more. */
const TOO_EARLY_BYTES = 64 * 1024 * 1024;

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
   * `goneBytes` is the size of all big bodies that have come and gone since the start, `heldBytes` that of all bodies on
   * their way now.
   */
  look(nowMs: number, short: boolean, { goneBytes, heldBytes }: { goneBytes: number; heldBytes: number }): void {
    const worthwhile = goneBytes > this.#collectedBytes && heldBytes < TOO_EARLY_BYTES;
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

/**
 * Has V8 go on with a heap that fills until it is full. By itself V8 ends the process where four collections in a row
 * leave four fifths of the heap in use and take more time than the program, which is before the actions against overload
 * that could help it: whoever calls this turns requests away.
 */
export function keepFillingHeapsAlive(): void {
  setFlagsFromString("--no-detect-ineffective-gcs-near-heap-limit");
}
