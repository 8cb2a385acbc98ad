import type { Detail } from "../../outcome.ts";
import type { NotKept } from "../continuation/continuation-room.ts";
import type { CacheNote } from "../prefixes/cache-note.ts";
import type { CallHeaders } from "../wire/generate-wire.ts";
import type { UpstreamFailure } from "./grpc-error.ts";

/** How one try of a request on one endpoint ended; `cancelled` where the client left, or this gateway has to stop. */
export type AttemptEnd = UpstreamFailure | "answered" | "cancelled";

/** Follows one Generate call for the record of its request. */
export type AttemptTrace = {
  /** The headers that go along with the call as metadata. */
  readonly headers: CallHeaders;
  /** Notes how the call ended; called once, when it is over. */
  ended(how: AttemptEnd): void;
};

/** The record of a request, which is told of every call that is made to an engine for it. */
export type CallRecord = {
  /**
   * Notes that a Generate call is about to be sent to the endpoint at `address`, and returns who follows it.
   * `continuedTokens` is how many tokens of an answer that another engine began it is to go on from; undefined where it
   * begins the answer.
   */
  generateSent(address: string, continuedTokens?: number): AttemptTrace;
  /**
   * Notes that a CountTokens call is about to be sent to the endpoint at `address`. Returns the headers that go along
   * with it.
   */
  countSent(address: string): CallHeaders;
  /** The answer is not kept, or no longer, so that no other engine could go on with it; `why` is the reason. */
  notKept(why: NotKept): void;
  /** Notes that the request got its place only after it had waited for its prefill for as long as it may. */
  overdue(): void;
  /** Notes what was in the cache of the endpoint that was called last, and why not more. */
  cached(note: CacheNote): void;
  /** A call has failed with the token `detail`. Another one may follow, whose end says nothing of this failure. */
  tryFailed(detail: Detail): void;
};
