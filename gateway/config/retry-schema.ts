import * as z from "zod";
import { milliseconds } from "../../deploy/runtime/config/process-schema.ts";
import { DEFAULT_BACK_OFF } from "../upstream/retry/retry-back-off.ts";

/** Envoy's `retry_policy`, as far as generation allows one. The retry budget stands with the circuit breakers. */
export const retrySchema = z
  .strictObject({
    numRetries: z.int().min(0).max(5).default(2).describe("Further tries before the first delta."),
    retryBackOff: z
      .strictObject({
        baseIntervalMs: milliseconds(
          DEFAULT_BACK_OFF.baseIntervalMs,
          "Range of the wait before the first retry; it grows.",
        ),
        maxIntervalMs: milliseconds(DEFAULT_BACK_OFF.maxIntervalMs, "The longest wait."),
      })
      .prefault({})
      .describe("The wait before a retry is drawn evenly from its range."),
  })
  .prefault({});
