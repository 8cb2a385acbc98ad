import { status } from "@grpc/grpc-js";
import type { FailedCall } from "../../deploy/runtime/grpc/status-details.ts";
import { type EndingStatus, saysUnreadable } from "../../deploy/runtime/grpc/status-details.ts";
import { EngineError, type ErrorReason, toFailedCall } from "../errors.ts";

/** The statuses that grpc-js and its companion packages raise on their own, with the reason and text sent for each. */
const RAISED: Readonly<Partial<Record<status, readonly [reason: ErrorReason, message: string]>>> = {
  [status.CANCELLED]: ["CANCELLED", "The caller has left."],
  [status.DEADLINE_EXCEEDED]: ["DEADLINE", "The deadline has passed."],
  [status.NOT_FOUND]: ["MODEL_NOT_SERVED", "The node serves nothing of this name."],
  [status.RESOURCE_EXHAUSTED]: ["MESSAGE_TOO_LARGE", "The message is larger than the node takes."],
  [status.UNIMPLEMENTED]: ["UNIMPLEMENTED", "The node does not know this method, or not this way of calling it."],
};

/** Returns the error sent in place of a status that grpc-js raised on its own. */
export function explained(ended: EndingStatus): FailedCall {
  if (saysUnreadable(ended)) return toFailedCall(new EngineError("INVALID_REQUEST", "The request cannot be read."));
  const [reason, message] = RAISED[ended.code ?? status.UNKNOWN] ?? [
    "ENGINE_ERROR",
    "The node had an error of its own.",
  ];
  return toFailedCall(new EngineError(reason, message));
}

/** The status of calls to unknown methods. */
export const UNKNOWN_METHOD = explained({ code: status.UNIMPLEMENTED, details: "" });
