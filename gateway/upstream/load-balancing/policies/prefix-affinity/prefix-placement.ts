import type { Clock } from "../../../../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../../../../deploy/runtime/time/clock.ts";
import type { Event, Finished } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Placement } from "../../policy.ts";
import type { Work, WorkLedger } from "../../work-ledger.ts";
import type { Measured, Placed, PrefixLearning } from "./prefix-learning.ts";

/** Follows a prompt to an endpoint: the expectation of the pick, corrected by the engine's events. */
export class PrefixPlacement implements Placement {
  readonly #placed: Placed;
  readonly #learning: PrefixLearning;
  readonly #ledger: WorkLedger;
  readonly #clock: Clock;
  #work: Work | undefined;
  #measured: Measured | undefined;
  #prefilled = false;

  constructor(placed: Placed, learning: PrefixLearning, ledger: WorkLedger, clock: Clock) {
    this.#placed = placed;
    this.#learning = learning;
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /**
   * Records that the prompt is on its way: its tokens are work of the endpoint, and its prefix will be in the cache
   * there.
   */
  begin(): void {
    this.#learning.dispatched(this.#placed, this.#clock.nowMs());
    this.#work = this.#ledger.add(this.#placed.address, this.#placed.prediction.uncachedTokens);
  }

  /** Takes the events of one message. Runs for every delta, for which the last event of a message suffices. */
  see(events: readonly Event[]): void {
    if (!this.#prefilled) for (const event of events) this.#observe(event);
    const last = events.at(-1)?.kind;
    if (last?.$case === "finished") this.#timed(last.value);
  }

  /** Removes the prompt from the endpoint's work. Idempotent. */
  end(): void {
    this.#work?.done();
    if (!this.#prefilled) this.#learning.abandoned(this.#placed);
  }

  #observe(event: Event): void {
    const kind = event.kind;
    switch (kind?.$case) {
      case "started": {
        const { inputTokens, cachedInputTokens } = kind.value;
        this.#measured = { inputTokens, cachedInputTokens };
        this.#work?.remain(inputTokens - (cachedInputTokens ?? 0));
        return;
      }
      case "progress":
        if (this.#measured) this.#work?.remain(this.#measured.inputTokens - kind.value.prefilledTokens);
        return;
      case "blockDelta":
      case "finished":
        this.#settle();
        return;
      default:
        return;
    }
  }

  /**
   * Learns the endpoint's speed from a finished call. Engines that do not separate queue time from prefill time yield
   * no speed.
   */
  #timed({ usage, timings }: Finished): void {
    if (usage) this.#learning.answered(usage.outputTokens);
    if (!usage || !timings?.queue || !timings.prefill) return;
    const tokens = usage.inputTokens - usage.cachedInputTokens;
    this.#ledger.measured(this.#placed.address, tokens, durationMs(timings.prefill));
  }

  #settle(): void {
    if (this.#prefilled) return;
    this.#prefilled = true;
    this.#work?.done();
    if (this.#measured) this.#learning.prefilled(this.#placed, this.#measured, this.#clock.nowMs());
  }
}
