import type { AttemptLoopParts } from "./attempt-loop.ts";
import type { CallRecord } from "./call/call-record.ts";
import { callCountTokens } from "./call/count-tokens-call.ts";
import type { UpstreamFailure } from "./call/grpc-error.ts";
import type { RequestBuffer } from "./call/request-buffer.ts";
import type { ClusterTraffic } from "./cluster-traffic.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { clientClosed } from "./retry/retry-errors.ts";

/** The number of token counts of a model that are under way at once; they take no slot. */
export const MAX_COUNTS = 128;

/**
 * The time that counting the tokens of a prompt may take, in milliseconds. It is quick: a node that takes longer is not
 * well.
 */
const COUNT_TIMEOUT_MS = 30_000;

/** A prompt whose tokens an engine shall count. */
export type Counting = {
  /** The prompt as the engine gets it: a CountTokens request in the bytes of the contract. */
  readonly request: RequestBuffer;
  /** The catalog id of the model. */
  readonly model: string;
  /** The record of the request, which takes note of every call that is made for it. */
  readonly record: CallRecord;
};

/** The parts of attempt loops that counts share. */
export type TokenCounterParts = Pick<AttemptLoopParts, "clock" | "timeouts" | "numRetries" | "replies">;

/**
 * Has engines count the tokens of prompts. A count takes no slot, so that neither queue nor caps have a say, but one of
 * the places that the cluster has for counts.
 */
export class TokenCounter {
  readonly #traffic: ReadonlyMap<string, ClusterTraffic>;
  readonly #parts: TokenCounterParts;

  /** Counts on the clusters of `traffic`, by the models that they serve. */
  constructor(traffic: ReadonlyMap<string, ClusterTraffic>, parts: TokenCounterParts) {
    this.#traffic = traffic;
    this.#parts = parts;
  }

  /**
   * Resolves to the tokens of the rendered prompt, as an engine counts them. Throws `ApiError`; aborting the signal ends
   * the count.
   */
  async count(counting: Counting, signal: AbortSignal): Promise<number> {
    const { replies } = this.#parts;
    const traffic = this.#traffic.get(counting.model);
    if (!traffic) throw replies.notAdmitted("no_endpoints", counting.model, undefined);
    const place = traffic.admission.breaker.tryCount(MAX_COUNTS);
    if (!place) throw replies.countOverflow();
    try {
      return await this.#counted(traffic, counting, signal);
    } finally {
      place.release();
    }
  }

  async #counted(
    { cluster, admission }: ClusterTraffic,
    { request, model, record }: Counting,
    signal: AbortSignal,
  ): Promise<number> {
    const { clock, numRetries, timeouts, replies } = this.#parts;
    const deadline = clock.wallMs() + COUNT_TIMEOUT_MS;
    const tried = new Set<Endpoint>();
    let failure: UpstreamFailure | undefined;
    for (let retries = 0; retries <= numRetries; retries += 1) {
      const endpoint = cluster.pick(tried);
      if (!endpoint) break;
      tried.add(endpoint);
      const headers = record.countSent(endpoint.address);
      const options = { headers, deadline, clock, connectMs: timeouts.connectMs };
      const counted = await callCountTokens(endpoint, request, options, signal);
      if (signal.aborted) throw clientClosed();
      if (typeof counted === "number") return counted;
      failure = counted;
      record.tryFailed(failure.error.detail);
      if (!failure.retriable) throw failure.error;
    }
    throw failure
      ? replies.exhausted(failure.error, admission)
      : replies.notAdmitted("none_available", model, admission);
  }
}
