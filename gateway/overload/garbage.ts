import { setFlagsFromString } from "node:v8";
import { collectGarbage } from "../../deploy/runtime/process/collect-garbage.ts";

/** The time in which garbage is collected at most once, in milliseconds. */
const MIN_INTERVAL_MS = 10_000;
/** The bytes of bodies on their way from which it is too early to collect: what they will leave behind is more. */
const TOO_EARLY_BYTES = 64 * 1024 * 1024;
/**
 * The utilization of the event loop from which others would notice a collection. V8 collects there by itself, as it is
 * asked for memory again and again, and mostly beside the loop.
 */
const BUSY_UTILIZATION = 0.1;

/** What tells whether there is garbage of big bodies to collect, and whether that would hold up others. */
export type GarbageFacts = {
  /** The size of all big bodies that have come and gone since the start, in bytes. */
  readonly goneBytes: number;
  /** The size of all bodies on their way now, in bytes. */
  readonly heldBytes: number;
  /** The share of the time in which the event loop was busy of late, from 0 to 1. */
  readonly utilization: number;
};

/**
 * Decides when garbage is collected beside V8's own schedule, which counts on memory being free: when the process is
 * short of it, and when big bodies have come and gone and nobody else is held up. A collection holds the event loop for
 * some tens of milliseconds.
 */
export class Garbage {
  readonly #collect: () => void;
  #collectedMs = Number.NEGATIVE_INFINITY;
  #collectedBytes = 0;

  /** Makes a decider that has not collected yet. `collect` collects all garbage; by default V8 is asked to. */
  constructor(collect: () => void = collectGarbage) {
    this.#collect = collect;
  }

  /** Looks whether to collect at the monotonic time `nowMs`. `short` says that memory is short. */
  look(nowMs: number, short: boolean, { goneBytes, heldBytes, utilization }: GarbageFacts): void {
    const isWork = goneBytes > this.#collectedBytes;
    const worthwhile = isWork && heldBytes < TOO_EARLY_BYTES && utilization < BUSY_UTILIZATION;
    if (nowMs - this.#collectedMs < MIN_INTERVAL_MS || !(short || worthwhile)) return;
    this.#collectedMs = nowMs;
    this.#collectedBytes = goneBytes;
    this.#collect();
  }
}

/**
 * Has V8 go on with a heap that fills until it is full. By itself V8 ends the process where four collections in a row
 * leave four fifths of the heap in use and take more time than the program, which is before the actions against overload
 * that could help it: whoever calls this turns requests away.
 */
export function keepFillingHeapsAlive(): void {
  setFlagsFromString("--no-detect-ineffective-gcs-near-heap-limit");
}
