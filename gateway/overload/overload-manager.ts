import { setFlagsFromString } from "node:v8";
import { heapUse } from "../../deploy/runtime/process/heap-use.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { BodyBudget } from "./body-budget.ts";
import type { OverloadSettings } from "./overload-settings.ts";
import { memoryLimitBytes, residentBytes } from "./process-usage.ts";

/*
 * Overload of the process, after Envoy's overload manager: monitors report the pressure on resources, and actions start
 * when a trigger is reached.
 */

/** The resources of the process that are watched, under Envoy's names where it has the thing. */
export const RESOURCE_MONITORS = ["eventLoopDelay", "fixedHeap", "processMemory"] as const;
export type ResourceMonitor = (typeof RESOURCE_MONITORS)[number];

/**
 * The actions that keep the process alive, the milder first. `releaseKeptAnswers` drops answers that are kept so that
 * another engine could continue them, the largest first, and keeps no further ones; `stopAcceptingRequests` is Envoy's.
 */
export const OVERLOAD_ACTIONS = ["releaseKeptAnswers", "stopAcceptingRequests"] as const;
export type OverloadAction = (typeof OVERLOAD_ACTIONS)[number];

/** Used share of each resource, from 0 to 1; a delay beyond its limit is above 1. */
export type Pressures = Readonly<Record<ResourceMonitor, number>>;

/** Pressures that trigger each action. A late event loop gains nothing from memory that is released. */
const TRIGGERS: Readonly<Record<OverloadAction, Partial<Pressures>>> = {
  releaseKeptAnswers: { fixedHeap: 0.85, processMemory: 0.85 },
  stopAcceptingRequests: { eventLoopDelay: 0.95, fixedHeap: 0.95, processMemory: 0.95 },
};
/** Distance below its trigger at which a pressure counts as normal. */
const HYSTERESIS = 0.1;
/** One slow tick of the event loop, or one full heap before its collection, is not an overload. */
const CHECKS_TO_START = 2;
/** Consecutive good checks before an action ends: after one, the readmitted load may trigger it again. */
const CHECKS_TO_END = 4;
/**
 * Milliseconds between two ticks, whose delay is that of the event loop. Node's own histogram is not used: after a
 * reset, it omits the delay until its next tick, which is the only measurement while the event loop is blocked.
 */
const TICK_MS = 50;
/** Milliseconds between two checks; a blocked event loop has one after each of its turns. */
const CHECK_INTERVAL_MS = 250;
/** Milliseconds. A process that shares its core has delays of up to a second without harm. */
const MAX_DELAY_MS = 3_000;

/** Size in bytes below which bodies are not checked against the heap: hundreds of them are negligible. */
const SMALL_BODY_BYTES = 65_536;
/**
 * Heap bytes per byte of a body: its text and its parsed form coexist for a while, and text beyond Latin-1 takes two
 * bytes per character. The digests of many short messages take as much.
 */
const HEAP_PER_BODY_BYTE = 4;
/** Bytes of memory per byte of a body while it is parsed or written: its buffers on top of the heap. */
const MEMORY_PER_BODY_BYTE = 5;
/** Size in bytes from which the memory of the process is measured anew for each body. */
const LARGE_BODY_BYTES = 1024 * 1024;
/** Milliseconds after which a measurement is too old for smaller bodies: measuring is slow. */
const READING_AGE_MS = 50;
/** Share of heap and memory from which no further body of some size is read. */
const FULL_SHARE = 0.95;
/** Share of the process's memory for bodies in flight where the configuration has no size, and its maximum in bytes. */
const BODIES_SHARE = 0.25;
const MAX_BODIES_BYTES = 536_870_912;

/** The state of an action: `over` and `under` count consecutive checks with a reached trigger, or all pressures below. */
type ActionState = { active: boolean; over: number; under: number };

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
  readonly bodies: BodyBudget;
  /** Memory limit of the process, in bytes. */
  readonly maxRssBytes: number;
  readonly #heapLimitBytes: number | undefined;
  readonly #clock: Clock;
  readonly #onAction: (change: ActionChange) => void;
  #pressures: Pressures = { eventLoopDelay: 0, fixedHeap: 0, processMemory: 0 };
  readonly #states: Readonly<Record<OverloadAction, ActionState>> = {
    releaseKeptAnswers: { active: false, over: 0, under: 0 },
    stopAcceptingRequests: { active: false, over: 0, under: 0 },
  };
  readonly #listeners = new Set<() => void>();
  /** Latest measurement of the process's memory for a body. */
  #reading = { bytes: 0, atMs: Number.NEGATIVE_INFINITY };
  /** Bytes of all bodies in translation, whose results are not in the heap yet. */
  #translatedBytes = 0;
  /** Longest delay of a tick since the last check, in milliseconds. */
  #delayMs = 0;
  /** When the next tick is due, and from when on it checks. */
  #dueMs = 0;
  #checkDueMs: number;
  #cancelTick: () => void = () => {};

  /**
   * Starts monitoring. `onAction` is called when an action starts or ends. `maxRssBytes` is the memory limit of the
   * process, by default that of its container or machine.
   */
  constructor(
    { resourceMonitors: { fixedHeap, inflightBodyBytes } }: OverloadSettings,
    clock: Clock,
    onAction: (change: ActionChange) => void = () => {},
    maxRssBytes = memoryLimitBytes(),
  ) {
    this.#heapLimitBytes = fixedHeap.maxHeapSizeBytes;
    this.#clock = clock;
    this.#onAction = onAction;
    // By default V8 aborts the process if four consecutive collections leave four fifths of the heap in use and take
    // more time than the program: before the overload actions can help.
    setFlagsFromString("--no-detect-ineffective-gcs-near-heap-limit");
    this.maxRssBytes = maxRssBytes;
    const bySize = Math.floor(Math.min(MAX_BODIES_BYTES, BODIES_SHARE * maxRssBytes));
    this.bodies = new BodyBudget({ maxBytes: inflightBodyBytes.maxBytes ?? bySize, clock });
    this.#checkDueMs = clock.nowMs() + CHECK_INTERVAL_MS;
    this.#schedule();
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
    return memoryBytes >= FULL_SHARE * this.maxRssBytes ? "process_memory" : undefined;
  }

  /** Reserves heap for the result of a body in translation; negative `bytes` end this. */
  countTranslated(bytes: number): void {
    this.#translatedBytes += bytes;
  }

  /** Calls the listener after every check, when the actions are decided. */
  onCheck(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Stops monitoring; actions keep their state. */
  close(): void {
    this.#cancelTick();
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
    return { usedBytes, limitBytes: this.#heapLimitBytes ?? limitBytes };
  }

  #schedule(): void {
    this.#dueMs = this.#clock.nowMs() + TICK_MS;
    this.#cancelTick = this.#clock.after(TICK_MS, this.#tick);
  }

  readonly #tick = (): void => {
    const nowMs = this.#clock.nowMs();
    this.#delayMs = Math.max(this.#delayMs, nowMs - this.#dueMs);
    this.#schedule();
    if (nowMs < this.#checkDueMs) return;
    this.#checkDueMs = nowMs + CHECK_INTERVAL_MS;
    this.#check();
  };

  #check(): void {
    const heap = this.#heap();
    const pressures = {
      eventLoopDelay: this.#delayMs / MAX_DELAY_MS,
      fixedHeap: heap.usedBytes / heap.limitBytes,
      processMemory: residentBytes() / this.maxRssBytes,
    };
    this.#delayMs = 0;
    this.#pressures = pressures;
    for (const action of OVERLOAD_ACTIONS) {
      const state = this.#states[action];
      const wasActive = state.active;
      decide(state, TRIGGERS[action], pressures);
      if (state.active !== wasActive) this.#onAction({ action, active: state.active, pressures });
    }
    for (const listener of this.#listeners) listener();
  }
}

/** Starts after two consecutive checks with a reached trigger; ends after four with all pressures 0.1 below. */
function decide(state: ActionState, triggers: Partial<Pressures>, pressures: Pressures): void {
  // The least distance of a pressure below its trigger.
  let distance = Number.POSITIVE_INFINITY;
  for (const monitor of RESOURCE_MONITORS)
    distance = Math.min(distance, (triggers[monitor] ?? Number.POSITIVE_INFINITY) - pressures[monitor]);
  state.over = distance <= 0 ? state.over + 1 : 0;
  state.under = distance <= HYSTERESIS ? 0 : state.under + 1;
  state.active = state.active ? state.under < CHECKS_TO_END : state.over >= CHECKS_TO_START;
}
