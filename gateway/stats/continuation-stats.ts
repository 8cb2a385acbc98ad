import { Counter, Histogram, type Registry } from "prom-client";

/**
 * The outcome of an answer whose engine was lost before its end: another one went on with it, or why none did.
 *
 * - `not_kept`: its engine cannot be continued, or there was no room to keep the answer.
 * - `lost_too_often`: it lost several engines.
 * - `no_endpoint`: no endpoint that can continue it came in time.
 * - `other_answer`: the continuing engine sent another answer.
 * - `refused`: the continuing engine refused it.
 * - `suspected`: its request may have caused the loss of engines.
 */
export type ContinuationOutcome =
  | "went_on"
  | "not_kept"
  | "lost_too_often"
  | "no_endpoint"
  | "other_answer"
  | "refused"
  | "suspected";

/** Upper bounds of the time until another engine continued, in seconds: from a prefill to an outage. */
const SECONDS_TO_GO_ON: readonly number[] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];

export class ContinuationStats {
  readonly #ends: Counter<"cluster" | "outcome">;
  readonly #gap: Histogram<"cluster">;
  readonly #notKept: Counter<"cluster" | "reason">;

  constructor(registry: Registry) {
    this.#ends = new Counter({
      name: "svc_continuations_total",
      help: "Answers that lost their engine before their end, by outcome: went_on, or why no other engine continued them.",
      labelNames: ["cluster", "outcome"],
      registers: [registry],
    });
    this.#gap = new Histogram({
      name: "svc_continuation_gap_seconds",
      help: "Time from the loss of an answer's engine to the first new event from another one, in seconds.",
      labelNames: ["cluster"],
      buckets: [...SECONDS_TO_GO_ON],
      registers: [registry],
    });
    this.#notKept = new Counter({
      name: "svc_answers_not_kept_total",
      help: "Answers not kept for continuation, or not any more, by reason: no_room, no_room_for_key, overload, released.",
      labelNames: ["cluster", "reason"],
      registers: [registry],
    });
  }

  /** Counts an answer that another engine continued `gapMs` milliseconds after the loss. */
  wentOn(cluster: string, gapMs: number): void {
    this.#ends.inc({ cluster, outcome: "went_on" });
    this.#gap.observe({ cluster }, gapMs / 1000);
  }

  /** Counts an answer that was not continued after the loss of its engine. */
  ended(cluster: string, outcome: ContinuationOutcome): void {
    this.#ends.inc({ cluster, outcome });
  }

  /** Counts an answer that is not kept, or not any more, so that no other engine could continue it. */
  notKept(cluster: string, reason: string): void {
    this.#notKept.inc({ cluster, reason });
  }
}
