import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

const MIB = 1024 * 1024;

const REQUEST_HEADERS_MS = 10_000;
const CLIENT_WRITE_STALL_MS = 30_000;
const CONNECT_MS = 2_000;
/** The limit on handing over a small request, and again on the wait for the first message, in milliseconds. */
const ACCEPT_MS = 5_000;
/** The time that every MiB of a request adds to both, in milliseconds: it has to be sent, read and checked. */
const ACCEPT_PER_MIB_MS = 1_000;
/** The least limit on the first delta without progress, in milliseconds. */
const PER_TRY_MS = 30_000;
/** The time that every thousand tokens of the prompt add to it, in milliseconds. */
const PER_TRY_PER_THOUSAND_TOKENS_MS = 500;
const MAX_PER_TRY_MS = 600_000;
/** The least limit between two deltas of an endpoint, in milliseconds. */
const INTER_TOKEN_MS = 60_000;
/** The share of the keep-alive interval after which the status line of a stream is sent even without a delta. */
const HEADER_COMMIT_SHARE = 0.8;

export const timeoutsSchema = z
  .strictObject({
    requestTimeoutMs: milliseconds(
      120_000,
      "Milliseconds from the first byte of a request to the end of its body. Its headers have 10 s of it at most, and a client that reads nothing of its stream is cut after 30 s, or this time where it is shorter.",
    ),
    pendingTimeoutMs: milliseconds(
      30_000,
      "Milliseconds for which an admitted request waits until an endpoint takes it, before each of its attempts; while none is there, noEndpointHoldMs of the cluster counts.",
    ),
    perTryIdleTimeoutMs: milliseconds(
      20_000,
      "Milliseconds between two signs of life of an endpoint; progress is one only if its counter moved. Shorter, if this is: 2 s to connect, 5 s and 1 s a MiB to accept. The first delta has 30 s and 0.5 s for each 1,000 tokens from the last progress, each further one 60 s, or this if longer.",
    ),
    keepAliveIntervalMs: milliseconds(
      10_000,
      "The silence on a stream, in milliseconds, after which the client is sent a sign of life; the first one, and with it the status line, after 0.8 of it.",
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
  readonly requestHeadersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** From the admission of a request until it is sent to an endpoint, in milliseconds. */
  readonly pendingMs: number;
  readonly connectMs: number;
  /** On handing over a small request, and again on `Started` or a queue position, in milliseconds. */
  readonly acceptMs: number;
  /** The time that every MiB of the request adds to `acceptMs`, in milliseconds. */
  readonly acceptPerMiBMs: number;
  /** Until the first delta, from the acceptance by an engine or its latest progress; it grows with the prompt. */
  readonly perTry: PerTryTimeout;
  /** Between any two signs of life of an engine, in milliseconds; progress counts only if its counter advanced. */
  readonly perTryIdleMs: number;
  readonly interTokenMs: number;
  readonly maxStreamDurationMs: number;
  readonly maxRequestDurationMs: number;
  readonly clientWriteStallMs: number;
  /** The silence on a stream after which the client receives a keep-alive, in milliseconds. */
  readonly keepAliveIntervalMs: number;
  /** From the admission of a request until the status line is sent, even without a delta, in milliseconds. */
  readonly headerCommitMs: number;
};

export type PerTryTimeout = {
  readonly baseMs: number;
  readonly perThousandTokensMs: number;
  readonly maxMs: number;
};

export function timeoutsOf({
  requestTimeoutMs,
  pendingTimeoutMs,
  perTryIdleTimeoutMs: perTryIdleMs,
  keepAliveIntervalMs,
  maxStreamDurationMs,
  maxRequestDurationMs,
}: z.infer<typeof timeoutsSchema>): Timeouts {
  return {
    requestHeadersTimeoutMs: Math.min(REQUEST_HEADERS_MS, requestTimeoutMs),
    requestTimeoutMs,
    pendingMs: pendingTimeoutMs,
    connectMs: Math.min(CONNECT_MS, perTryIdleMs),
    acceptMs: Math.min(ACCEPT_MS, perTryIdleMs),
    acceptPerMiBMs: ACCEPT_PER_MIB_MS,
    perTry: {
      baseMs: Math.max(PER_TRY_MS, perTryIdleMs),
      perThousandTokensMs: PER_TRY_PER_THOUSAND_TOKENS_MS,
      maxMs: Math.max(MAX_PER_TRY_MS, perTryIdleMs),
    },
    perTryIdleMs,
    interTokenMs: Math.max(INTER_TOKEN_MS, perTryIdleMs),
    maxStreamDurationMs,
    maxRequestDurationMs,
    clientWriteStallMs: Math.min(CLIENT_WRITE_STALL_MS, requestTimeoutMs),
    keepAliveIntervalMs,
    headerCommitMs: HEADER_COMMIT_SHARE * keepAliveIntervalMs,
  };
}

/** The limit on handing over a request, and again on the first message, in milliseconds. */
export function acceptTimeoutMs(
  bytes: number,
  { acceptMs, acceptPerMiBMs }: Pick<Timeouts, "acceptMs" | "acceptPerMiBMs">,
): number {
  return acceptMs + (bytes / MIB) * acceptPerMiBMs;
}

/** Returns the limit on the first delta of an attempt, in milliseconds, for a prompt of about `inputTokens` tokens. */
export function perTryTimeoutMs(inputTokens: number, { baseMs, perThousandTokensMs, maxMs }: PerTryTimeout): number {
  return Math.min(maxMs, baseMs + (Math.max(0, inputTokens) * perThousandTokensMs) / 1_000);
}
