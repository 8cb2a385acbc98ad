import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

const MIB = 1024 * 1024;

/** The schema of the settings of every time limit of a request. */
export const timeoutsSchema = z
  .strictObject({
    requestHeadersTimeoutMs: milliseconds(
      10_000,
      "The time, in milliseconds, from the first byte of a request to the end of its headers.",
    ),
    requestTimeoutMs: milliseconds(
      120_000,
      "The time, in milliseconds, from the first byte of a request to the end of its body.",
    ),
    pendingTimeoutMs: milliseconds(
      30_000,
      "The time, in milliseconds, for which an admitted request waits until an endpoint takes it, before each of its tries; while none is there, noEndpointHoldMs of the cluster counts for streamed ones.",
    ),
    connectTimeoutMs: milliseconds(2_000, "The time, in milliseconds, that connecting to an endpoint may take."),
    acceptTimeoutMs: milliseconds(
      5_000,
      "The time, in milliseconds, that handing a request over to an endpoint may take, and as much again from then until the endpoint's first sign of life; acceptTimeoutPerMiBMs is added to both.",
    ),
    acceptTimeoutPerMiBMs: z
      .int()
      .min(0)
      .default(1_000)
      .describe(
        "The time, in milliseconds, that is added to acceptTimeoutMs for every MiB of the request: it has to be carried, read and checked before anything can be said of it.",
      ),
    perTryTimeout: z
      .strictObject({
        baseMs: milliseconds(30_000, "The time, in milliseconds, that any prompt has."),
        perThousandTokensMs: z
          .int()
          .min(0)
          .default(500)
          .describe("The time, in milliseconds, that is added for every 1,000 tokens of the prompt."),
        maxMs: milliseconds(600_000, "The longest time, in milliseconds, that a prompt has."),
      })
      .prefault({})
      .describe(
        "The time that an endpoint has to its first delta, from taking the request or from the newest movement of its progress, grows with the prompt: a prefill that gets on is never ended for being slow.",
      ),
    perTryIdleTimeoutMs: milliseconds(
      20_000,
      "The time, in milliseconds, between two signs of life of an endpoint; progress is one only if its counter moved.",
    ),
    interTokenTimeoutMs: milliseconds(60_000, "The time, in milliseconds, between two deltas."),
    keepAliveIntervalMs: milliseconds(
      10_000,
      "The silence on a stream, in milliseconds, after which the client is sent a sign of life.",
    ),
    headerCommitMs: milliseconds(
      8_000,
      "The time, in milliseconds, after which the status line of an admitted stream is sent even without a delta.",
    ),
    clientWriteStallMs: milliseconds(
      30_000,
      "The time, in milliseconds, for which a stream waits for a client that reads nothing.",
    ),
    maxStreamDurationMs: milliseconds(3_600_000, "The length of the longest streamed answer, in milliseconds."),
    maxRequestDurationMs: milliseconds(
      900_000,
      "The length of the longest answer that is not streamed, in milliseconds.",
    ),
  })
  .prefault({})
  .describe("The time limits of requests and of the calls to engines.");

/** Every time limit of a request on its way through the gateway, in milliseconds. */
export type Timeouts = {
  /** The time from the first byte of a request until its headers are complete, in milliseconds. */
  readonly requestHeadersMs: number;
  /** The time from the first byte of a request until its body is complete, in milliseconds. */
  readonly requestMs: number;
  /** The time from the admission of a request until an endpoint takes it, in milliseconds. */
  readonly pendingMs: number;
  /** The time that opening a connection to an endpoint may take, in milliseconds. */
  readonly connectMs: number;
  /**
   * The time that handing over a small request may take, and as much again until the engine says `Started`, or that the
   * call is in its queue, in milliseconds.
   */
  readonly acceptMs: number;
  /** The time that every MiB of the request adds to `acceptMs`, in milliseconds. */
  readonly acceptPerMiBMs: number;
  /**
   * The time until the first delta, from the acceptance by an engine or the newest movement of its progress; it grows
   * with the prompt.
   */
  readonly perTry: PerTryTimeout;
  /**
   * The time between any two signs of life of an engine, in milliseconds; progress counts only if its counter advanced.
   */
  readonly perTryIdleMs: number;
  /** The time between two deltas while decoding, in milliseconds. */
  readonly interTokenMs: number;
  /** The time from the admission of a request until the end of a streamed answer, in milliseconds. */
  readonly maxStreamDurationMs: number;
  /** The time from the admission of a request until the end of an answer in one piece, in milliseconds. */
  readonly maxReplyDurationMs: number;
  /** The time for which a client's socket may take nothing, in milliseconds. */
  readonly clientWriteStallMs: number;
  /** The time for which a client hears nothing until a heartbeat is sent, in milliseconds. */
  readonly heartbeatMs: number;
  /** The time from the admission of a request until the status line is sent, even without a delta, in milliseconds. */
  readonly headerCommitMs: number;
};

/** The settings of the time to the first token, in milliseconds: it grows with the prompt. */
export type PerTryTimeout = {
  /** The time that every prompt has, in milliseconds. */
  readonly baseMs: number;
  /** The time that every thousand tokens of the prompt add, in milliseconds. */
  readonly perThousandTokensMs: number;
  /** The longest time that any prompt has, in milliseconds. */
  readonly maxMs: number;
};

/** Returns the time limits of the configuration under the names that the code uses. */
export function timeoutsOf(checked: z.infer<typeof timeoutsSchema>): Timeouts {
  return {
    requestHeadersMs: checked.requestHeadersTimeoutMs,
    requestMs: checked.requestTimeoutMs,
    pendingMs: checked.pendingTimeoutMs,
    connectMs: checked.connectTimeoutMs,
    acceptMs: checked.acceptTimeoutMs,
    acceptPerMiBMs: checked.acceptTimeoutPerMiBMs,
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

/**
 * Returns how long handing over a request of about `bytes` bytes may take, in milliseconds, and as much again the wait
 * from then on until the engine shows a sign of life.
 */
export function acceptTimeoutMs(
  bytes: number,
  { acceptMs, acceptPerMiBMs }: Pick<Timeouts, "acceptMs" | "acceptPerMiBMs">,
): number {
  return acceptMs + (bytes / MIB) * acceptPerMiBMs;
}

/** Returns how long a try may take to its first delta, in milliseconds, for a prompt of about `inputTokens` tokens. */
export function perTryTimeoutMs(inputTokens: number, { baseMs, perThousandTokensMs, maxMs }: PerTryTimeout): number {
  return Math.min(maxMs, baseMs + (Math.max(0, inputTokens) * perThousandTokensMs) / 1_000);
}
