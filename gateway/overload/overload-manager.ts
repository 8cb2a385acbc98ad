import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { InflightBodies } from "./inflight-bodies.ts";
import {
  type ActionState,
  afterLook,
  OVERLOAD_ACTIONS,
  type OverloadAction,
  type Pressures,
  RESTING,
  type Triggers,
} from "./overload-action.ts";
import { heapUse, ProcessUsage, type Usage } from "./process-usage.ts";

/** A core that is busy for less than about this time is none that is too small. */
const UTILIZATION_SPAN_MS = 10_000;

/** Hundreds of these make no difference to any heap. */
const SMALL_BODY_BYTES = 65_536;
/** Its text and what is parsed of it, for a while both; text beyond Latin-1 takes two bytes a character. */
const HEAP_PER_BODY_BYTE = 3;

export type OverloadSettings = {
  /** Between two looks, in milliseconds. */
  readonly refreshIntervalMs: number;
  readonly resourceMonitors: {
    readonly eventLoopDelay: { readonly maxDelayMs: number };
    /** Absent: what V8 lets the heap grow to. */
    readonly fixedHeap: { readonly maxHeapSizeBytes?: number | undefined };
    readonly inflightBodyBytes: { readonly maxBytes: number };
  };
  readonly actions: Readonly<Record<OverloadAction, Triggers>>;
};

/** Watches the process and says what has to be done to keep it alive. Decides nothing about what was let in already. */
export class OverloadManager {
  /** Also refuses by itself what would not fit in. */
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

  get pressures(): Pressures {
    return this.#pressures;
  }

  isActive(action: OverloadAction): boolean {
    return this.#states[action].active;
  }

  /** What has no room for a body of so many bytes that is about to be read; undefined: it has. */
  lacksFor(bytes: number): "inflight_body_bytes" | "fixed_heap" | undefined {
    if (!this.bodies.hasRoom(bytes)) return "inflight_body_bytes";
    return bytes < SMALL_BODY_BYTES || this.#fitsInHeap(this.bodies.bytes + bytes) ? undefined : "fixed_heap";
  }

  /** Whether a body of so many bytes, which is among the ones on their way, may be parsed. */
  mayParse(bytes: number): boolean {
    return bytes < SMALL_BODY_BYTES || this.#fitsInHeap(this.bodies.bytes);
  }

  /** Bodies of some size can fill a small heap between two looks. */
  #fitsInHeap(bodyBytes: number): boolean {
    const threshold = this.#settings.actions.stopAcceptingRequests.fixedHeap;
    const { usedBytes, limitBytes } = this.#heap();
    return threshold === null || usedBytes + HEAP_PER_BODY_BYTE * bodyBytes < threshold * limitBytes;
  }

  #heap(): ReturnType<typeof heapUse> {
    const { usedBytes, limitBytes } = heapUse();
    return { usedBytes, limitBytes: this.#settings.resourceMonitors.fixedHeap.maxHeapSizeBytes ?? limitBytes };
  }

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
