import { status } from "@grpc/grpc-js";

/** How a call on an endpoint ended, as far as the endpoint is concerned. */
export type CallEnding =
  | { readonly kind: "completed" }
  /**
   * The node ended the call with a status; `notReady` where it said that its queue is full, it drains, or it still
   * loads.
   */
  | { readonly kind: "status"; readonly code: status; readonly notReady: boolean }
  | { readonly kind: "connect_failure" }
  /** The connection was lost with the call on it. */
  | { readonly kind: "reset" }
  /** The node sent no `Started`, no first delta, or no sign of progress in time. */
  | { readonly kind: "stalled" }
  | { readonly kind: "protocol_violation" }
  | { readonly kind: "version_mismatch" }
  /** The gateway ended the call: the client left, reads too slowly, or the time of the whole request is up. */
  | { readonly kind: "cancelled" };

/** What an ending says about the health of an endpoint; `neutral` says nothing. */
export type OutlierOutcome = "success" | "failure" | "neutral";

/** The gRPC statuses that are the endpoint's own fault; all others are the request's, or ours. */
const FAILURES: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.INTERNAL,
  status.DATA_LOSS,
  status.UNKNOWN,
  status.ABORTED,
]);

/**
 * Returns what an ending says about the endpoint. A full queue is load, not ill health, and a bad request is nobody's
 * fault here; so both are neutral.
 */
export function outlierOutcome(ending: CallEnding): OutlierOutcome {
  switch (ending.kind) {
    case "completed":
      return "success";
    case "status":
      return !ending.notReady && FAILURES.has(ending.code) ? "failure" : "neutral";
    case "protocol_violation":
    case "version_mismatch":
    case "connect_failure":
    case "reset":
    case "stalled":
      return "failure";
    case "cancelled":
      return "neutral";
    default:
      return ending satisfies never;
  }
}
