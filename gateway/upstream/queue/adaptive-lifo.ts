import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

/**
 * The wait of a served request, in turns, above which the queue is too slow: below it too few wait for anybody to gain
 * by another order.
 */
const SLOW_TURNS = 2;

/** The number of turns for which the queue must be too slow without a break to be served newest first. */
const STANDING_TURNS = 3;

/** The wait, in turns, below which nobody gives up early: within one turn every place has been given to somebody. */
const PATIENCE_TURNS = 1;

/** The schema of the settings on when a queue is served newest first. */
export const adaptiveLifoSchema = z
  .strictObject({
    targetMs: milliseconds(
      5_000,
      `The wait, in milliseconds, of the requests that are served, above which the queue is too slow; it is so only where more than ${SLOW_TURNS} generations ended meanwhile for each one that runs.`,
    ),
    intervalMs: milliseconds(
      10_000,
      `The time, in milliseconds, for which the queue must be too slow without a break to be served newest first, and at least ${STANDING_TURNS} generations for each one that runs.`,
    ),
    timeoutMs: milliseconds(
      5_000,
      "The wait, in milliseconds, after which a request gives up while the queue is served newest first, once a generation has ended for each one that runs.",
    ),
  })
  .prefault({})
  .describe(
    "A queue that stands for several generations is served newest first, until nobody waits: some are then served at once, instead of all too late.",
  );

/** The settings on when a queue is served newest first, checked, with their defaults. */
export type AdaptiveLifoSettings = Readonly<z.infer<typeof adaptiveLifoSchema>>;

/** The wait of a request, by the clock and by what the cluster has done meanwhile. */
export type Wait = {
  /** The time that the request has waited, in milliseconds. */
  readonly ms: number;
  /** The turns that the request has waited: the generations that ended meanwhile, for each one that runs at once. */
  readonly turns: number;
};

/**
 * Decides when a queue is to be served newest first. A queue that nobody leaves quickly any more stands: in its order,
 * everybody would be served just before they give up. Newest first, some are served at once, and the others are told
 * early. As in CoDel, the shortest wait of an interval tells a queue that stands from one that had a burst; it is over
 * when the queue has been empty.
 *
 * How long is too long, only the generations of this cluster say: behind answers of minutes everybody waits for long,
 * and a queue that nobody could be served from yet is not known to stand.
 */
export class AdaptiveLifo {
  readonly #settings: AdaptiveLifoSettings;
  /** The turns of the cluster so far. */
  #turns = 0;
  /** The moment and the turn since which every served request has waited too long. */
  #slowSince: { readonly ms: number; readonly turns: number } | undefined;
  #newestFirst = false;

  constructor(settings: AdaptiveLifoSettings) {
    this.#settings = settings;
  }

  /** Whether the queue is to be served newest first now. */
  get newestFirst(): boolean {
    return this.#newestFirst;
  }

  /** The turns of the cluster so far; only differences mean anything. */
  get turns(): number {
    return this.#turns;
  }

  /** Tells that a generation has ended, of `running` that ran at once. */
  ended(running: number): void {
    this.#turns += 1 / Math.max(1, running);
  }

  /** Tells that nobody waits. */
  emptied(): void {
    this.#slowSince = undefined;
    this.#newestFirst = false;
  }

  /** Tells that a request was served at the monotonic time `nowMs`, in milliseconds, after its wait in the queue. */
  served(wait: Wait, nowMs: number): void {
    const { targetMs, intervalMs } = this.#settings;
    if (wait.ms <= targetMs || wait.turns <= SLOW_TURNS) {
      this.#slowSince = undefined;
      return;
    }
    this.#slowSince ??= { ms: nowMs, turns: this.#turns };
    const { ms, turns } = this.#slowSince;
    if (nowMs - ms >= intervalMs && this.#turns - turns >= STANDING_TURNS) this.#newestFirst = true;
  }

  /** Returns whether a request that has waited so long is to give up before its own deadline. */
  isTooLong(wait: Wait): boolean {
    return this.#newestFirst && wait.ms > this.#settings.timeoutMs && wait.turns >= PATIENCE_TURNS;
  }
}
