import type { Detail } from "../../outcome.ts";
import type { NotKept } from "../continuation/continuation-budget.ts";
import type { NoteSink } from "../load-balancing/policy.ts";
import type { CallHeaders } from "../wire/generate-wire.ts";
import type { UpstreamFailure } from "./grpc-error.ts";

/** The end of an attempt; `cancelled` also where this gateway has to stop. */
export type AttemptEnd = UpstreamFailure | "answered" | "cancelled";

export type CallRecord = NoteSink & {
  /**
   * Records a Generate call about to be sent, and returns its headers. `continuedTokens`: those of an answer begun
   * elsewhere. The call ends with `generateEnded` before another one is sent.
   */
  generateSent(address: string, continuedTokens?: number): CallHeaders;
  generateEnded(how: AttemptEnd): void;
  /** Records a call about to be sent that reads the prompt for the endpoint of the next one. Returns its headers. */
  prefillSent(): CallHeaders;
  /** Records on which other endpoint the prompt was read; undefined where the answering one reads it. */
  prefilledOn(address: string | undefined): void;
  /** Records a CountTokens call about to be sent. Returns its headers. */
  countSent(address: string): CallHeaders;
  /** Records why no other engine could continue the answer. */
  notKept(why: NotKept): void;
  overdue(): void;
  /** Records a failed call; another may follow, whose end does not include this failure. */
  attemptFailed(detail: Detail): void;
};
