import { durationMs } from "../../deploy/runtime/time/clock.ts";
import type { Duration } from "../../proto/gen/google/protobuf/duration.ts";
import type { Finished } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { PrefillSpeed } from "../backends/prefill-speed.ts";
import { type EngineError, NODE_FAULTS } from "../errors.ts";

/** The bounds of the RetryInfo delay of a full node, and the delay without a measurement. */
const MIN_WAIT_MS = 100;
const MAX_WAIT_MS = 30_000;
const UNKNOWN_WAIT_MS = 1_000;

/** The weight of the newest generation in the moving averages, from 0 to 1. */
const NEWEST = 0.2;
/** The decay time of the request counts, in milliseconds. */
const WINDOW_MS = 10_000;

export type Rates = {
  /** Uncached prompt tokens per second of prefill; undefined before the first measurement. */
  readonly prefillTokensPerSecond: number | undefined;
  /** Output tokens per second of one generation after its prefill; undefined before the first measurement. */
  readonly decodeTokensPerSecond: number | undefined;
  /** Generations that ended, over about the last ten seconds. */
  readonly requestsPerSecond: number;
  /** Generations that failed by a fault of the node, over about the last ten seconds. */
  readonly errorsPerSecond: number;
};

/** Estimates the recent speed of a node from the usage and timings of finished generations. */
export class Throughput {
  readonly #nowMs: () => number;
  readonly #requests = new FadingCount();
  readonly #errors = new FadingCount();
  readonly #prefill: PrefillSpeed;
  #decode: number | undefined;
  /** The average time that a generation holds its slot, in milliseconds; undefined before the first measurement. */
  #serviceMs: number | undefined;

  /** `prefill` is the speed that the backend reads as well. */
  constructor(nowMs: () => number, prefill = new PrefillSpeed()) {
    this.#nowMs = nowMs;
    this.#prefill = prefill;
  }

  /** Adds a generation that has ended. Other nodes made `continuedTokens` of its answer. */
  add(finished: Finished | undefined, failure: EngineError | undefined, continuedTokens = 0): void {
    this.#requests.add(this.#nowMs());
    if (failure && NODE_FAULTS.has(failure.reason)) this.#errors.add(this.#nowMs());
    const { usage, timings } = finished ?? {};
    if (!usage || !timings) return;
    this.#prefill.add({
      uncachedTokens: usage.inputTokens - usage.cachedInputTokens,
      seconds: seconds(timings.prefill),
      queueSeconds: timings.queue && seconds(timings.queue),
    });
    this.#decode = mean(this.#decode, rate(usage.outputTokens - continuedTokens, timings.decode));
    this.#serviceMs = mean(this.#serviceMs, 1_000 * (seconds(timings.prefill) + seconds(timings.decode)));
  }

  /** Estimates when one of `running` generations releases its slot, in milliseconds from now. */
  nextEndMs(running: number): number {
    if (this.#serviceMs === undefined || running === 0) return UNKNOWN_WAIT_MS;
    return Math.min(MAX_WAIT_MS, Math.max(MIN_WAIT_MS, Math.round(this.#serviceMs / running)));
  }

  rates(): Rates {
    const now = this.#nowMs();
    return {
      prefillTokensPerSecond: this.#prefill.tokensPerSecond,
      decodeTokensPerSecond: this.#decode,
      requestsPerSecond: this.#requests.perSecond(now),
      errorsPerSecond: this.#errors.perSecond(now),
    };
  }
}

/** Counts events per second with exponential decay. */
class FadingCount {
  #weight = 0;
  #atMs = 0;

  add(nowMs: number): void {
    this.#weight = this.#at(nowMs) + 1;
    this.#atMs = nowMs;
  }

  perSecond(nowMs: number): number {
    return this.#at(nowMs) / (WINDOW_MS / 1000);
  }

  #at(nowMs: number): number {
    return this.#weight * Math.exp(-(nowMs - this.#atMs) / WINDOW_MS);
  }
}

function rate(tokens: number, took: Duration | undefined): number | undefined {
  return tokens <= 0 || seconds(took) <= 0 ? undefined : tokens / seconds(took);
}

function mean(before: number | undefined, now: number | undefined): number | undefined {
  if (before === undefined || now === undefined) return now ?? before;
  return before + NEWEST * (now - before);
}

function seconds(duration: Duration | undefined): number {
  return duration ? durationMs(duration) / 1000 : 0;
}
