import { status } from "@grpc/grpc-js";

/** The end of a call on an endpoint, as far as it concerns the endpoint. */
export type CallEnding =
  | { readonly kind: "completed" }
  /** The node ended the call with a status; `notReady`: its queue is full, it drains, or it still loads. */
  | { readonly kind: "status"; readonly code: status; readonly notReady: boolean }
  | { readonly kind: "connect_failure" }
  /** The connection was lost with the call on it. */
  | { readonly kind: "reset" }
  /** The node sent no `Started`, no first delta, or no progress in time. */
  | { readonly kind: "stalled" }
  | { readonly kind: "protocol_violation" }
  | { readonly kind: "version_mismatch" }
  /** The gateway ended the call: the client disconnected, reads too slowly, or the request's time is over. */
  | { readonly kind: "cancelled" };

/** The meaning of an ending for the health of an endpoint; `neutral` has none. */
export type OutlierOutcome = "success" | "failure" | "neutral";

/** The gRPC statuses caused by the endpoint; all others are caused by the request, or by the gateway. */
const FAILURES: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.INTERNAL,
  status.DATA_LOSS,
  status.UNKNOWN,
  status.ABORTED,
]);

/**
 * Returns the meaning of an ending for the endpoint. A full queue is load, not ill health, and a bad request is not the
 * endpoint's fault; so both are neutral.
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
