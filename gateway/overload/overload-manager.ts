import { setFlagsFromString } from "node:v8";
import { heapUse } from "../../deploy/runtime/process/heap-use.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { InflightBodies } from "./inflight-bodies.ts";
import {
  type ActionState,
  afterLook,
  OVERLOAD_ACTIONS,
  type OverloadAction,
  type Pressures,
  RESTING,
  TRIGGERS,
} from "./overload-action.ts";
import type { OverloadSettings } from "./overload-settings.ts";
import { memoryLimitBytes, residentBytes } from "./process-memory.ts";
import { ProcessUsage } from "./process-usage.ts";

/** The time between two looks at the resources, in milliseconds. */
const REFRESH_INTERVAL_MS = 250;

/** The size below which bodies are not held against the heap: hundreds of these make no difference to any. */
const SMALL_BODY_BYTES = 65_536;
/**
 * The bytes of heap that a byte of a body takes: its text and what is parsed of it, for a while both, and text beyond
 * Latin-1 takes two bytes a character. As much is kept of a body of the shortest messages, for the digest of each.
 */
const HEAP_PER_BODY_BYTE = 4;
/** The size from which the system is asked for the memory of the process anew, for each body. */
const LARGE_BODY_BYTES = 1024 * 1024;
/** The age from which a reading of the memory is too old for smaller bodies, in milliseconds: it costs much. */
const READING_AGE_MS = 50;
/** The share of heap and memory from which on no further body of some size is taken. */
const FULL_SHARE = 0.95;
/** The bytes of memory that a byte of a body takes while it is parsed or written: its buffers on top of the heap. */
const MEMORY_PER_BODY_BYTE = 5;

/** The share of the room for bodies that those of one tenant take up of what others leave. */
const TENANT_SHARE = 0.5;
/** The share of the process' memory that bodies on their way get where the configuration gives them no size. */
const BODIES_SHARE = 0.25;
/** The most that bodies on their way get where the configuration gives them no size, in bytes. */
const MAX_BODIES_BYTES = 536_870_912;

/** An action against overload that has begun or ended. */
export type ActionChange = {
  /** The action that begins or ends. */
  readonly action: OverloadAction;
  /** Whether the action begins; false where it ends. */
  readonly active: boolean;
  /** The pressures that the look found. */
  readonly pressures: Pressures;
};

/** A resource that has no room for a body. */
export type LackingResource = "fixed_heap" | "process_memory";

/**
 * Watches the process and says what has to be done to keep it alive. It decides nothing about requests that were let in
 * already.
 */
export class OverloadManager {
  /** The bodies on their way. One that would not fit in waits there, or is refused. */
  readonly bodies: InflightBodies;
  readonly #settings: OverloadSettings;
  readonly #clock: Clock;
  readonly #usage: ProcessUsage;
  readonly #onAction: (change: ActionChange) => void;
  readonly #maxRssBytes: number;
  #pressures: Pressures = {
    eventLoopDelay: 0,
    fixedHeap: 0,
    processMemory: 0,
  };
  #states: Readonly<Record<OverloadAction, ActionState>> = {
    releaseKeptAnswers: RESTING,
    stopAcceptingRequests: RESTING,
  };
  readonly #listeners = new Set<() => void>();
  /** The newest reading of the memory of the process for a body. */
  #reading = { bytes: 0, atMs: Number.NEGATIVE_INFINITY };
  /** The size of all bodies that are being translated, in bytes; what comes of them is not in the heap yet. */
  #translatedBytes = 0;
  #cancelLook: () => void = () => {};

  /** Begins to watch the process. `onAction` is called with every action that begins or ends. */
  constructor(settings: OverloadSettings, clock: Clock, onAction: (change: ActionChange) => void = () => {}) {
    this.#settings = settings;
    this.#clock = clock;
    this.#onAction = onAction;
    this.#usage = new ProcessUsage(clock);
    // By default V8 ends the process where four collections in a row leave four fifths of the heap in use and take more
    // time than the program: before the actions against overload that would help.
    setFlagsFromString("--no-detect-ineffective-gcs-near-heap-limit");
    const { processMemory, inflightBodyBytes } = settings.resourceMonitors;
    this.#maxRssBytes = processMemory.maxRssBytes ?? memoryLimitBytes();
    const bySize = Math.floor(Math.min(MAX_BODIES_BYTES, BODIES_SHARE * this.#maxRssBytes));
    const maxBytes = inflightBodyBytes.maxBytes ?? bySize;
    this.bodies = new InflightBodies({
      maxBytes,
      maxShareOfKey: TENANT_SHARE,
      maxWaitMs: inflightBodyBytes.maxWaitMs,
      clock,
    });
    this.#schedule();
  }

  /** The memory of the process that counts as all of it, in bytes. */
  get maxRssBytes(): number {
    return this.#maxRssBytes;
  }

  /** The pressures that the newest look found; all 0 before the first. */
  get pressures(): Pressures {
    return this.#pressures;
  }

  /** Returns whether `action` is to be done now. */
  isActive(action: OverloadAction): boolean {
    return this.#states[action].active;
  }

  /**
   * Returns the resource that has no room for one more body of `bytes`, to be read or parsed; undefined when all have.
   */
  lacksFor(bytes: number): LackingResource | undefined {
    if (bytes < SMALL_BODY_BYTES) return undefined;
    const { usedBytes, limitBytes } = this.#heap();
    // Bodies of some size can fill a small heap between two looks, and several of them while they are translated.
    const neededBytes = usedBytes + HEAP_PER_BODY_BYTE * (this.#translatedBytes + bytes);
    if (neededBytes >= FULL_SHARE * limitBytes) return "fixed_heap";
    const memoryBytes = this.#resident(bytes) + MEMORY_PER_BODY_BYTE * bytes;
    return memoryBytes >= FULL_SHARE * this.#maxRssBytes ? "process_memory" : undefined;
  }

  /**
   * Counts a body of `bytes` that is translated from now on, for which the heap needs room once it is. Returns what ends
   * that, to be called once.
   */
  beginTranslation(bytes: number): () => void {
    this.#translatedBytes += bytes;
    return () => {
      this.#translatedBytes -= bytes;
    };
  }

  /** Returns the memory of the process before a body of `bytes`. */
  #resident(bytes: number): number {
    const nowMs = this.#clock.nowMs();
    if (bytes >= LARGE_BODY_BYTES || nowMs - this.#reading.atMs >= READING_AGE_MS)
      this.#reading = { bytes: residentBytes(), atMs: nowMs };
    return this.#reading.bytes;
  }

  #heap(): ReturnType<typeof heapUse> {
    const { usedBytes, limitBytes } = heapUse();
    return { usedBytes, limitBytes: this.#settings.resourceMonitors.fixedHeap.maxHeapSizeBytes ?? limitBytes };
  }

  /** Calls the listener after every look, when it is known which actions are to be done. */
  onLook(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Stops watching; the actions stay as they are. */
  close(): void {
    this.#cancelLook();
    this.#usage.close();
  }

  #schedule(): void {
    this.#cancelLook = this.#clock.after(REFRESH_INTERVAL_MS, () => {
      this.#schedule();
      this.#look();
    });
  }

  #look(): void {
    this.#pressures = this.#pressuresOf(this.#usage.readDelayMs());
    const before = this.#states;
    const states = { ...before };
    for (const action of OVERLOAD_ACTIONS)
      states[action] = afterLook(states[action], TRIGGERS[action], this.#pressures);
    this.#states = states;
    for (const action of OVERLOAD_ACTIONS) {
      const { active } = states[action];
      if (active !== before[action].active) this.#onAction({ action, active, pressures: this.#pressures });
    }
    for (const listener of this.#listeners) listener();
  }

  #pressuresOf(eventLoopDelayMs: number): Pressures {
    const heap = this.#heap();
    return {
      eventLoopDelay: eventLoopDelayMs / this.#settings.resourceMonitors.eventLoopDelay.maxDelayMs,
      fixedHeap: heap.usedBytes / heap.limitBytes,
      processMemory: residentBytes() / this.#maxRssBytes,
    };
  }
}
