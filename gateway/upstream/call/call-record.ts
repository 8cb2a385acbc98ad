import type { Detail } from "../../outcome.ts";
import type { NotKept } from "../continuation/continuation-room.ts";
import type { CacheNote } from "../load-balancing/cache-reasons.ts";
import type { CallHeaders } from "../wire/generate-wire.ts";
import type { UpstreamFailure } from "./grpc-error.ts";

/**
 * The end of one attempt of a request on one endpoint; `cancelled` where the client disconnected, or this gateway has
 * to stop.
 */
export type AttemptEnd = UpstreamFailure | "answered" | "cancelled";

/** Follows one Generate call for the record of its request. */
export type AttemptTrace = {
  /** The headers sent with the call as metadata. */
  readonly headers: CallHeaders;
  /** Called once with the end of the call. */
  ended(how: AttemptEnd): void;
};

/** The record of a request, which receives every call made to an engine for it. */
export type CallRecord = {
  /**
   * Records that a Generate call is about to be sent to the endpoint at `address`, and returns its trace.
   * `continuedTokens` is the number of tokens of an answer begun by another engine; undefined where the call begins the
   * answer.
   */
  generateSent(address: string, continuedTokens?: number): AttemptTrace;
  /**
   * Records that a CountTokens call is about to be sent to the endpoint at `address`. Returns the headers sent with it.
   */
  countSent(address: string): CallHeaders;
  /**
   * Records that the answer is not, or no longer, kept, so that no other engine could continue it; `why` is the reason.
   */
  notKept(why: NotKept): void;
  /** Records that the request got its place only after its wait for prefill had reached the limit. */
  overdue(): void;
  /** Records the cached tokens on the last called endpoint, and the reason for any missing ones. */
  cached(note: CacheNote): void;
  /**
   * Records that a call has failed with the token `detail`. Another call may follow, whose end does not include this
   * failure.
   */
  tryFailed(detail: Detail): void;
};
