import type { AttemptLoopParts } from "./attempt-loop.ts";
import type { CallRecord } from "./call/call-record.ts";
import { callCountTokens } from "./call/count-tokens-call.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";
import type { ClusterTraffic } from "./cluster/cluster-traffic.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { clientClosed } from "./local-replies.ts";
import type { RequestBuffer } from "./request/request-buffer.ts";
import { MOST_RETRIES } from "./retry/retry-policy.ts";

/** The most running token counts of a model; they take no slot. */
export const MAX_COUNTS = 128;

/** The timeout of a token count, in milliseconds. Counting is quick: a slower node is not healthy. */
const COUNT_TIMEOUT_MS = 30_000;

export type Counting = {
  readonly request: RequestBuffer;
  readonly model: string;
  readonly record: CallRecord;
};

export type TokenCounterParts = Pick<AttemptLoopParts, "clock" | "timeouts" | "replies">;

/** Counts tokens on engines: a count takes no slot, but one of `MAX_COUNTS`. */
export class TokenCounter {
  readonly #traffic: ReadonlyMap<string, ClusterTraffic>;
  readonly #parts: TokenCounterParts;

  constructor(traffic: ReadonlyMap<string, ClusterTraffic>, parts: TokenCounterParts) {
    this.#traffic = traffic;
    this.#parts = parts;
  }

  /** Resolves to the tokens of the rendered prompt. Throws `ApiError`. */
  async count(counting: Counting, signal: AbortSignal): Promise<number> {
    const { replies } = this.#parts;
    const traffic = this.#traffic.get(counting.model);
    if (!traffic) throw new Error("a model without a cluster is refused before");
    if (traffic.runningCounts >= MAX_COUNTS) throw replies.countOverflow();
    traffic.runningCounts += 1;
    try {
      return await this.#counted(traffic, counting, signal);
    } finally {
      traffic.runningCounts -= 1;
    }
  }

  async #counted(
    { cluster, admission }: ClusterTraffic,
    { request, model, record }: Counting,
    signal: AbortSignal,
  ): Promise<number> {
    const { clock, timeouts, replies } = this.#parts;
    const deadline = clock.wallMs() + COUNT_TIMEOUT_MS;
    const tried = new Set<Endpoint>();
    let failure: UpstreamFailure | undefined;
    for (let retries = 0; retries <= MOST_RETRIES; retries += 1) {
      const endpoint = cluster.pick(tried);
      if (!endpoint) break;
      tried.add(endpoint);
      const headers = record.countSent(endpoint.address);
      const options = { headers, deadline, clock, connectMs: timeouts.connectMs };
      const counted = await callCountTokens(endpoint, request, options, signal);
      if (signal.aborted) throw clientClosed();
      if (typeof counted === "number") return counted;
      failure = counted;
      record.attemptFailed(failure.error.detail);
      if (!failure.retriable) throw failure.error;
    }
    throw failure
      ? replies.exhausted(failure.error, admission)
      : replies.notAdmitted("none_available", model, admission);
  }
}
