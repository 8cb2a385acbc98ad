import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { UpstreamStats } from "../stats/upstream-stats.ts";
import type { AdmissionController } from "./admission/admission-controller.ts";
import type { NotAdmitted } from "./admission/slot-request.ts";
import { overloaded } from "./call/grpc-error.ts";

const UNKNOWN_MS = 2_000;
const LEAST_MS = 1_250;
const MOST_MS = 50_000;
/** The relative jitter of Retry-After, 0 to 1, so that callers do not return together. */
const JITTER = 0.2;
/** The least Retry-After in an outage, in milliseconds, and as a multiple of the outage's duration. */
const LEAST_OUTAGE_MS = 5_000;
const OUTAGE_GROWTH = 1.5;

const PENDING_DETAIL = {
  pending_overflow: "upstream_pending_overflow",
  pending_timeout: "upstream_pending_timeout",
} as const;

/** The part of a cluster's admission that estimates when a request could be served. */
export type Outlook = Pick<AdmissionController<unknown>, "outageMs" | "drainMs">;

/** Makes the errors of requests that no engine serves now, each with the time of a retry. */
export class LocalReplies {
  readonly #stats: Pick<UpstreamStats, "noneHealthy">;
  readonly #random: () => number;

  /** Counts requests without a healthy endpoint in `stats`; `random` returns numbers uniform over [0, 1). */
  constructor(stats: Pick<UpstreamStats, "noneHealthy">, random: () => number) {
    this.#stats = stats;
    this.#random = random;
  }

  countOverflow(): ApiError {
    return this.#overloaded("upstream_count_overflow");
  }

  /** Returns the error of a request that may kill engines, and may come again in `laterMs` milliseconds. */
  suspected(laterMs: number): ApiError {
    return this.#overloaded("request_of_death_suspected", laterMs);
  }

  /** Returns the error of a request whose attempts all failed before the first delta: its caller may retry later. */
  exhausted(last: ApiError, outlook: Outlook): ApiError {
    if (last.code !== "engine_unavailable" && last.code !== "server_is_overloaded") return last;
    return this.#overloaded(last.detail, last.retryAfterMs ?? outageRetryMs(outlook), last);
  }

  /** Returns the error of a request that gets no slot. */
  notAdmitted(why: NotAdmitted, model: string, outlook: Outlook): ApiError {
    const waitMs = outageRetryMs(outlook) ?? outlook.drainMs();
    if (why === "key_overflow") return this.#tooManyWaiting(waitMs);
    if (why === "pending_overflow" || why === "pending_timeout") return this.#overloaded(PENDING_DETAIL[why], waitMs);
    this.#stats.noneHealthy.inc({ cluster: model });
    return this.#overloaded("no_healthy_upstream", waitMs);
  }

  #tooManyWaiting(expectedMs: number | undefined): ApiError {
    const retryAfterMs = this.#retryAfterMs(expectedMs);
    const seconds = Math.ceil(retryAfterMs) / 1_000;
    const text = `Too many requests of this key are waiting for the model. Please try again in ${seconds}s.`;
    const options = { limit: "requests", retryAfterMs, detail: "key_pending_overflow" } as const;
    return new ApiError("rate_limit_exceeded", text, options);
  }

  #overloaded(detail: Detail, expectedMs?: number, cause?: unknown): ApiError {
    return overloaded(detail, this.#retryAfterMs(expectedMs), cause);
  }

  /** Returns when a caller may retry, by the expected time until there is capacity. */
  #retryAfterMs(expectedMs = UNKNOWN_MS): number {
    return Math.min(MOST_MS, Math.max(LEAST_MS, expectedMs)) * (1 + JITTER * (2 * this.#random() - 1));
  }
}

/**
 * Returns when there may be an endpoint again; undefined where there is one. An outage is likely to last as long again
 * and more: so the six attempts of many agents span more than a minute, and a short outage delays them little.
 */
function outageRetryMs(outlook: Outlook): number | undefined {
  const outageMs = outlook.outageMs();
  return outageMs === undefined ? undefined : Math.max(LEAST_OUTAGE_MS, OUTAGE_GROWTH * outageMs);
}

/** Returns the error for a request that endpoints died with; it must not be retried. */
export function requestOfDeath(): ApiError {
  const options = { detail: "request_of_death", shouldRetry: false } as const;
  return new ApiError("server_error", "The model's engines cannot process this request.", options);
}

/** Returns the error that ends the request of a disconnected client. It is logged, and not sent. */
export function clientClosed(): ApiError {
  return new ApiError("server_error", "The client closed the connection.", { detail: "downstream_remote_disconnect" });
}
