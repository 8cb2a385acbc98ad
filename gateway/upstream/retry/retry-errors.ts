import { ApiError } from "../../errors.ts";

/** The Retry-After without an estimate, in milliseconds. */
const UNKNOWN_MS = 2_000;
/** The least Retry-After for a model without any endpoint, in milliseconds. */
const LEAST_OUTAGE_MS = 5_000;
/** Its least value as a multiple of the outage's duration. */
const OUTAGE_GROWTH = 1.5;
const LEAST_MS = 1_250;
const MOST_MS = 50_000;
/** The relative jitter of Retry-After, 0 to 1. */
const JITTER = 0.2;

/**
 * Returns when a caller may retry, in milliseconds from now. `expectedMs` is the expected time until there is room;
 * undefined where unknown. The result is bounded below and above, and jittered, so that callers do not return together.
 * `random` returns numbers uniform over [0, 1).
 */
export function spreadRetryAfterMs(expectedMs: number | undefined, random: () => number): number {
  const withinMs = Math.min(MOST_MS, Math.max(LEAST_MS, expectedMs ?? UNKNOWN_MS));
  return withinMs * (1 + JITTER * (2 * random() - 1));
}

/**
 * Returns when there may be an endpoint again after an outage of `outageMs` milliseconds, in milliseconds from now;
 * undefined where `outageMs` is, as there is an endpoint. An outage is likely to last as long again and more: so the
 * six attempts of many agents span more than a minute, and a short outage delays them little.
 */
export function outageRetryMs(outageMs: number | undefined): number | undefined {
  return outageMs === undefined ? undefined : Math.max(LEAST_OUTAGE_MS, OUTAGE_GROWTH * outageMs);
}

export function tooManyWaiting(retryAfterMs: number): ApiError {
  const seconds = Math.ceil(retryAfterMs) / 1_000;
  const text = `Too many requests of this key are waiting for the model. Please try again in ${seconds}s.`;
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs,
    detail: "key_pending_overflow",
  });
}

/** Returns the error for a request that endpoints died with; it must not be retried. */
export function requestOfDeath(): ApiError {
  return new ApiError("server_error", "The model's engines cannot process this request.", {
    detail: "request_of_death",
    shouldRetry: false,
  });
}

/** Returns the error that ends the request of a disconnected client. It is logged, and not sent. */
export function clientClosed(): ApiError {
  return new ApiError("server_error", "The client closed the connection.", { detail: "downstream_remote_disconnect" });
}
