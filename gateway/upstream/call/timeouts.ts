/** Every time limit of a request on its way through the gateway, in milliseconds. */
export type Timeouts = {
  /** First byte of a request until its headers are complete. */
  readonly requestHeadersMs: number;
  /** Headers complete until the body is. */
  readonly requestMs: number;
  /** Admitted until an endpoint takes it. */
  readonly pendingMs: number;
  /** Opening a connection to an endpoint. */
  readonly connectMs: number;
  /** Generate sent until the engine says `Started`, or that it is in its queue. */
  readonly acceptMs: number;
  /** Accepted until the first delta. */
  readonly perTry: PerTryTimeout;
  /** Between any two signs of life of an engine; progress counts only if its counter advanced. */
  readonly perTryIdleMs: number;
  /** Between two deltas while decoding. */
  readonly interTokenMs: number;
  /** Admitted until the end of a streamed answer. */
  readonly maxStreamDurationMs: number;
  /** Admitted until the end of an answer in one piece. */
  readonly maxReplyDurationMs: number;
  /** A client's socket takes nothing. */
  readonly clientWriteStallMs: number;
  /** Silence towards the client until a heartbeat is sent. */
  readonly heartbeatMs: number;
  /** Admitted until the status line is sent, even without a delta. */
  readonly headerCommitMs: number;
};

/** The time to the first token grows with the prompt. */
export type PerTryTimeout = {
  readonly baseMs: number;
  readonly perThousandTokensMs: number;
  readonly maxMs: number;
};

export const DEFAULT_TIMEOUTS: Timeouts = {
  requestHeadersMs: 10_000,
  requestMs: 120_000,
  pendingMs: 30_000,
  connectMs: 2_000,
  acceptMs: 5_000,
  perTry: { baseMs: 30_000, perThousandTokensMs: 500, maxMs: 600_000 },
  perTryIdleMs: 20_000,
  interTokenMs: 60_000,
  maxStreamDurationMs: 3_600_000,
  maxReplyDurationMs: 900_000,
  clientWriteStallMs: 30_000,
  heartbeatMs: 10_000,
  headerCommitMs: 8_000,
};

/** How long a try may take to its first delta, for a prompt of about `inputTokens`. */
export function perTryTimeoutMs(inputTokens: number, { baseMs, perThousandTokensMs, maxMs }: PerTryTimeout): number {
  return Math.min(maxMs, baseMs + (Math.max(0, inputTokens) * perThousandTokensMs) / 1_000);
}
