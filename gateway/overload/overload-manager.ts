import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { InflightBodies } from "./inflight-bodies.ts";
import {
  type ActionState,
  afterLook,
  OVERLOAD_ACTIONS,
  type OverloadAction,
  type Pressures,
  RESTING,
} from "./overload-action.ts";
import type { OverloadSettings } from "./overload-settings.ts";
import { heapUse, ProcessUsage, type Usage } from "./process-usage.ts";

/**
 * The span over which the utilization of the event loop is averaged: a core that is busy for less than about this time
 * is not too small.
 */
const UTILIZATION_SPAN_MS = 10_000;

/** The size below which bodies are not held against the heap: hundreds of these make no difference to any. */
const SMALL_BODY_BYTES = 65_536;
/**
 * The bytes of heap that a byte of a body takes: its text and what is parsed of it, for a while both, and text beyond
 * Latin-1 takes two bytes a character.
 */
const HEAP_PER_BODY_BYTE = 3;

/**
 * Watches the process and says what has to be done to keep it alive. It decides nothing about requests that were let in
 * already.
 */
export class OverloadManager {
  /** The bodies that are being received. A body that would not fit in is refused there. */
  readonly bodies: InflightBodies;
  readonly #settings: OverloadSettings;
  readonly #clock: Clock;
  readonly #usage: ProcessUsage;
  #pressures: Pressures = { eventLoopDelay: 0, eventLoopUtilization: 0, fixedHeap: 0, inflightBodyBytes: 0 };
  #states: Readonly<Record<OverloadAction, ActionState>> = {
    disableHttpKeepalive: RESTING,
    rejectNonCritical: RESTING,
    stopAcceptingRequests: RESTING,
  };
  #cancelLook: () => void = () => {};

  constructor(settings: OverloadSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#usage = new ProcessUsage(clock);
    this.bodies = new InflightBodies(settings.resourceMonitors.inflightBodyBytes.maxBytes);
    this.#schedule();
  }

  /** The pressures that the newest look found; all 0 before the first. */
  get pressures(): Pressures {
    return this.#pressures;
  }

  /** Returns whether `action` is to be done now. */
  isActive(action: OverloadAction): boolean {
    return this.#states[action].active;
  }

  /** Returns the resource that has no room for a body of `bytes` that is about to be read; undefined when all have. */
  lacksFor(bytes: number): "inflight_body_bytes" | "fixed_heap" | undefined {
    if (!this.bodies.hasRoom(bytes)) return "inflight_body_bytes";
    return bytes < SMALL_BODY_BYTES || this.#fitsInHeap(this.bodies.bytes + bytes) ? undefined : "fixed_heap";
  }

  /** Returns whether a body of `bytes`, which counts among the bodies on their way, may be parsed. */
  mayParse(bytes: number): boolean {
    return bytes < SMALL_BODY_BYTES || this.#fitsInHeap(this.bodies.bytes);
  }

  /** Returns whether the heap has room for `bodyBytes`: bodies of some size can fill a small heap between two looks. */
  #fitsInHeap(bodyBytes: number): boolean {
    const threshold = this.#settings.actions.stopAcceptingRequests.fixedHeap;
    const { usedBytes, limitBytes } = this.#heap();
    return threshold === null || usedBytes + HEAP_PER_BODY_BYTE * bodyBytes < threshold * limitBytes;
  }

  #heap(): ReturnType<typeof heapUse> {
    const { usedBytes, limitBytes } = heapUse();
    return { usedBytes, limitBytes: this.#settings.resourceMonitors.fixedHeap.maxHeapSizeBytes ?? limitBytes };
  }

  /** Stops watching; the actions stay as they are. */
  close(): void {
    this.#cancelLook();
    this.#usage.close();
  }

  #schedule(): void {
    this.#cancelLook = this.#clock.after(this.#settings.refreshIntervalMs, () => {
      this.#schedule();
      this.#look();
    });
  }

  #look(): void {
    this.#pressures = this.#pressuresOf(this.#usage.read());
    const states = { ...this.#states };
    for (const action of OVERLOAD_ACTIONS)
      states[action] = afterLook(states[action], this.#settings.actions[action], this.#pressures);
    this.#states = states;
  }

  #pressuresOf({ eventLoopDelayMs, eventLoopUtilization }: Usage): Pressures {
    const { refreshIntervalMs, resourceMonitors } = this.#settings;
    const share = Math.min(1, refreshIntervalMs / UTILIZATION_SPAN_MS);
    const before = this.#pressures.eventLoopUtilization;
    const heap = this.#heap();
    return {
      eventLoopDelay: eventLoopDelayMs / resourceMonitors.eventLoopDelay.maxDelayMs,
      eventLoopUtilization: before + share * (eventLoopUtilization - before),
      fixedHeap: heap.usedBytes / heap.limitBytes,
      inflightBodyBytes: this.bodies.bytes / this.bodies.maxBytes,
    };
  }
}
