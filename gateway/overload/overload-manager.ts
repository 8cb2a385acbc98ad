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

/** Size in bytes below which bodies are not checked against the heap: hundreds of them are negligible. */
const SMALL_BODY_BYTES = 65_536;
/**
 * Heap bytes per byte of a body: its text and its parsed form coexist for a while, and text beyond Latin-1 takes two
 * bytes per character. The digests of many short messages take as much.
 */
const HEAP_PER_BODY_BYTE = 4;
/** Size in bytes from which the memory of the process is measured anew for each body. */
const LARGE_BODY_BYTES = 1024 * 1024;
/** Milliseconds after which a measurement is too old for smaller bodies: measuring is slow. */
const READING_AGE_MS = 50;
/** The share of heap and memory from which on no further body of some size is taken. */
const FULL_SHARE = 0.95;
/** The bytes of memory that a byte of a body takes while it is parsed or written: its buffers on top of the heap. */
const MEMORY_PER_BODY_BYTE = 5;

/** The share of the room for bodies that those of one tenant take up of what others leave. */
const TENANT_SHARE = 0.5;
/** The share of the process' memory that bodies on their way get where the configuration gives them no size. */
const BODIES_SHARE = 0.25;
/** Most bytes of the default for bodies in flight. */
const MAX_BODIES_BYTES = 536_870_912;

/** The start or end of an action. */
export type ActionChange = {
  readonly action: OverloadAction;
  /** True at the start, false at the end. */
  readonly active: boolean;
  /** Pressures of the check. */
  readonly pressures: Pressures;
};

/** The resource that is too short for a body. */
export type LackingResource = "fixed_heap" | "process_memory";

/** Monitors the process and decides the overload actions. It does not affect admitted requests. */
export class OverloadManager {
  /** The budget of bodies in flight. A body that does not fit waits there, or is refused. */
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
  /** Latest measurement of the process's memory for a body. */
  #reading = { bytes: 0, atMs: Number.NEGATIVE_INFINITY };
  /** Bytes of all bodies in translation, whose results are not in the heap yet. */
  #translatedBytes = 0;
  #cancelLook: () => void = () => {};

  /** Starts monitoring. `onAction` is called when an action starts or ends. */
  constructor(settings: OverloadSettings, clock: Clock, onAction: (change: ActionChange) => void = () => {}) {
    this.#settings = settings;
    this.#clock = clock;
    this.#onAction = onAction;
    this.#usage = new ProcessUsage(clock);
    // By default V8 aborts the process if four consecutive collections leave four fifths of the heap in use and take
    // more time than the program: before the overload actions can help.
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

  /** Memory limit of the process, in bytes. */
  get maxRssBytes(): number {
    return this.#maxRssBytes;
  }

  /** Pressures of the latest check; all 0 before the first. */
  get pressures(): Pressures {
    return this.#pressures;
  }

  /** Returns whether `action` is in force. */
  isActive(action: OverloadAction): boolean {
    return this.#states[action].active;
  }

  /** Returns the resource that is too short to read or parse a body of `bytes`; undefined if none is. */
  lacksFor(bytes: number): LackingResource | undefined {
    if (bytes < SMALL_BODY_BYTES) return undefined;
    const { usedBytes, limitBytes } = this.#heap();
    // Medium bodies can fill a small heap between two checks, and several of them while they are translated.
    const neededBytes = usedBytes + HEAP_PER_BODY_BYTE * (this.#translatedBytes + bytes);
    if (neededBytes >= FULL_SHARE * limitBytes) return "fixed_heap";
    const memoryBytes = this.#resident(bytes) + MEMORY_PER_BODY_BYTE * bytes;
    return memoryBytes >= FULL_SHARE * this.#maxRssBytes ? "process_memory" : undefined;
  }

  /**
   * Counts a body of `bytes` as in translation, so that heap is reserved for the result. Returns a function that ends
   * this, to be called once.
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

  /** Calls the listener after every check, when the actions are decided. */
  onLook(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Stops monitoring; actions keep their state. */
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
