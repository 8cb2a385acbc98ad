import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import { DEFAULT_TIMEOUTS, type Timeouts } from "../upstream/call/timeouts.ts";

const byDefault = DEFAULT_TIMEOUTS;

/** Every time limit of a request. */
export const timeoutsSchema = z
  .strictObject({
    requestHeadersTimeoutMs: milliseconds(
      byDefault.requestHeadersMs,
      "First byte of a request to the end of its headers.",
    ),
    requestTimeoutMs: milliseconds(byDefault.requestMs, "First byte of a request to the end of its body."),
    pendingTimeoutMs: milliseconds(byDefault.pendingMs, "Admitted until an endpoint takes the request."),
    connectTimeoutMs: milliseconds(byDefault.connectMs, "Connecting to an endpoint."),
    acceptTimeoutMs: milliseconds(byDefault.acceptMs, "Sent to an endpoint until its first sign of life."),
    perTryTimeout: z
      .strictObject({
        baseMs: milliseconds(byDefault.perTry.baseMs, "For any prompt."),
        perThousandTokensMs: z
          .int()
          .min(0)
          .default(byDefault.perTry.perThousandTokensMs)
          .describe("Added for every 1,000 tokens of the prompt."),
        maxMs: milliseconds(byDefault.perTry.maxMs, "Never longer than this."),
      })
      .prefault({})
      .describe("Accepted by an endpoint until the first delta."),
    perTryIdleTimeoutMs: milliseconds(
      byDefault.perTryIdleMs,
      "Between two signs of life of an endpoint; progress counts only if its counter moved.",
    ),
    interTokenTimeoutMs: milliseconds(byDefault.interTokenMs, "Between two deltas."),
    keepAliveIntervalMs: milliseconds(byDefault.heartbeatMs, "Silence on a stream after which a sign of life is sent."),
    headerCommitMs: milliseconds(
      byDefault.headerCommitMs,
      "Admitted until a stream's status line is sent, even without a delta.",
    ),
    clientWriteStallMs: milliseconds(
      byDefault.clientWriteStallMs,
      "How long a stream waits for a reader that takes nothing.",
    ),
    maxStreamDurationMs: milliseconds(byDefault.maxStreamDurationMs, "Longest streamed answer."),
    maxRequestDurationMs: milliseconds(byDefault.maxReplyDurationMs, "Longest answer that is not streamed."),
  })
  .prefault({});

/** The same under the names that the policies use. */
export function timeoutsOf(checked: z.infer<typeof timeoutsSchema>): Timeouts {
  return {
    requestHeadersMs: checked.requestHeadersTimeoutMs,
    requestMs: checked.requestTimeoutMs,
    pendingMs: checked.pendingTimeoutMs,
    connectMs: checked.connectTimeoutMs,
    acceptMs: checked.acceptTimeoutMs,
    perTry: checked.perTryTimeout,
    perTryIdleMs: checked.perTryIdleTimeoutMs,
    interTokenMs: checked.interTokenTimeoutMs,
    maxStreamDurationMs: checked.maxStreamDurationMs,
    maxReplyDurationMs: checked.maxRequestDurationMs,
    clientWriteStallMs: checked.clientWriteStallMs,
    heartbeatMs: checked.keepAliveIntervalMs,
    headerCommitMs: checked.headerCommitMs,
  };
}
