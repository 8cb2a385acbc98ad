import { percentile } from "../report/percentile.ts";
import type { EventQueue } from "./event-queue.ts";
import { FairShares } from "./fair-shares.ts";
import type { Prompt } from "./prompt.ts";
import type { NodeUse } from "./replay-node.ts";

export type ReplayResult = {
  /** The requests with a first token. */
  readonly requests: number;
  readonly answers: number;
  /** The share of all prompt tokens that were cached. */
  readonly hitRatio: number;
  readonly meanTtftMs: number;
  readonly p95TtftMs: number;
  readonly p99TtftMs: number;
  /** The share of the time in which the nodes prefilled. */
  readonly prefillBusy: number;
  /** The mean number of requests on the busiest node over the mean of all nodes. */
  readonly maxLoad: number;
  /** The share of sessions that received at least half of their fair share of prefill and answers. */
  readonly halfServed: number;
  /** The share of lost tokens with the true reason, warm-up included; NaN without reasons. */
  readonly trueReasons: number;
};

export type TurnRecord = {
  started(cachedTokens: number): void;
  served(share: number): void;
  firstToken(): void;
  finished(): void;
};

export class ReplayRecord {
  readonly #time: EventQueue;
  readonly #fromMs: number;
  readonly #ttftsMs: number[] = [];
  readonly #shares: FairShares;
  #answers = 0;
  #promptTokens = 0;
  #cachedTokens = 0;

  constructor(time: EventQueue, fromMs: number) {
    this.#time = time;
    this.#fromMs = fromMs;
    this.#shares = new FairShares(() => time.nowMs());
    time.after(fromMs, () => this.#shares.reset());
  }

  arrived({ tokens, session }: Prompt): TurnRecord {
    const turn = this.#shares.arrived(session);
    const arrivedMs = this.#time.nowMs();
    let cached = 0;
    return {
      started: (cachedTokens) => {
        cached = cachedTokens;
      },
      served: turn.served,
      firstToken: () => {
        if (!this.#counts) return;
        this.#ttftsMs.push(this.#time.nowMs() - arrivedMs);
        this.#promptTokens += tokens;
        this.#cachedTokens += cached;
      },
      finished: () => {
        turn.finished();
        if (this.#counts) this.#answers += 1;
      },
    };
  }

  /** Returns the result, given the use of the nodes in the measured period. */
  result(uses: readonly NodeUse[], trueReasons: number): ReplayResult {
    const requestMs = uses.map((use) => use.requestMs);
    return {
      requests: this.#ttftsMs.length,
      answers: this.#answers,
      hitRatio: this.#cachedTokens / this.#promptTokens,
      meanTtftMs: mean(this.#ttftsMs),
      p95TtftMs: percentile(this.#ttftsMs, 0.95),
      p99TtftMs: percentile(this.#ttftsMs, 0.99),
      prefillBusy: mean(uses.map(({ prefillMs }) => prefillMs)) / (this.#time.nowMs() - this.#fromMs),
      maxLoad: Math.max(...requestMs) / mean(requestMs),
      halfServed: mean(this.#shares.ratios().map((ratio) => Number(ratio >= 0.5))),
      trueReasons,
    };
  }

  get #counts(): boolean {
    return this.#time.nowMs() >= this.#fromMs;
  }
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);
}
