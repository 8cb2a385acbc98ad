import type { CallHeaders } from "./generate-call.ts";
import type { UpstreamFailure } from "./grpc-error.ts";

/** How one try of a request on one endpoint ended. `cancelled`: the client left, or this gateway has to stop. */
export type AttemptEnd = UpstreamFailure | "answered" | "cancelled";

/** Follows one Generate call for the record of its request. */
export type AttemptTrace = {
  /** The headers that go along with the call as metadata. */
  readonly headers: CallHeaders;
  /** Is told once, when the call is over. */
  ended(how: AttemptEnd): void;
};

/** Is told of every call that is made to an engine for one request. */
export type CallRecord = {
  /** A Generate call is about to be sent to the endpoint at `address`. */
  generateSent(address: string): AttemptTrace;
  /** A CountTokens call is about to be sent to the endpoint at `address`. Returns the headers that go along with it. */
  countSent(address: string): CallHeaders;
};
