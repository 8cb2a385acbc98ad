import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

/** The schema of the settings on when a queue is served newest first. */
export const adaptiveLifoSchema = z
  .strictObject({
    targetMs: milliseconds(
      5_000,
      "The wait, in milliseconds, of the requests that are served, above which the queue is too slow.",
    ),
    intervalMs: milliseconds(
      10_000,
      "The time, in milliseconds, for which the queue must be too slow without a break to be served newest first.",
    ),
    timeoutMs: milliseconds(
      5_000,
      "The longest wait of any request, in milliseconds, while the queue is served newest first.",
    ),
  })
  .prefault({})
  .describe(
    "A queue that stands is served newest first, until nobody waits: some are then served at once, instead of all too late.",
  );

/** The settings on when a queue is served newest first, checked, with their defaults. */
export type AdaptiveLifoSettings = Readonly<z.infer<typeof adaptiveLifoSchema>>;

/**
 * Decides when a queue is to be served newest first. A queue that nobody leaves quickly any more stands: in its order,
 * everybody would be served just before they give up. Newest first, some are served at once, and the others are told
 * early. As in CoDel, the shortest wait of an interval tells a queue that stands from one that had a burst; it is over
 * when the queue has been empty.
 */
export class AdaptiveLifo {
  readonly #settings: AdaptiveLifoSettings;
  /** Monotonic milliseconds since which every served request has waited too long. */
  #slowSinceMs: number | undefined;
  #newestFirst = false;

  constructor(settings: AdaptiveLifoSettings) {
    this.#settings = settings;
  }

  /** Whether the queue is to be served newest first now. */
  get newestFirst(): boolean {
    return this.#newestFirst;
  }

  /** The longest wait of a request, in milliseconds, beside its own deadline; infinite in the ordinary order. */
  get maxWaitMs(): number {
    return this.#newestFirst ? this.#settings.timeoutMs : Number.POSITIVE_INFINITY;
  }

  /**
   * Tells how long the oldest waiting request has waited at the monotonic time `nowMs`, in milliseconds; undefined when
   * none waits.
   */
  look(longestWaitMs: number | undefined, nowMs: number): void {
    if (longestWaitMs === undefined) {
      this.#slowSinceMs = undefined;
      this.#newestFirst = false;
      return;
    }
    if (this.#slowSinceMs === undefined && longestWaitMs > this.#settings.targetMs) this.#slowSinceMs = nowMs;
    if (this.#slowSinceMs !== undefined && nowMs - this.#slowSinceMs >= this.#settings.intervalMs)
      this.#newestFirst = true;
  }

  /** Tells that a request was served after `waitedMs` milliseconds in the queue. */
  served(waitedMs: number): void {
    if (waitedMs <= this.#settings.targetMs) this.#slowSinceMs = undefined;
  }
}
