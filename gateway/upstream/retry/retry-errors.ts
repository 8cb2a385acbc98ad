import { ApiError } from "../../errors.ts";

/** The time after which a caller may come again where there is no estimate, in milliseconds from now. */
const UNKNOWN_MS = 2_000;
/** The least time after which a caller may come again to a model without any endpoint, in milliseconds from now. */
const LEAST_OUTAGE_MS = 5_000;
/** The least value of that time, as a multiple of the time for which there has been no endpoint. */
const OUTAGE_GROWTH = 1.5;
const LEAST_MS = 1_250;
const MOST_MS = 50_000;
/** The share of itself, 0 to 1, by which the time is longer or shorter. */
const JITTER = 0.2;

/**
 * Returns when a caller may try again, in milliseconds from now. `expectedMs` is when there is likely to be room;
 * undefined where that is not known. The time is never at once and never in an hour, and spread, so that callers do not
 * come back together. `random` gives numbers that are even over [0, 1).
 */
export function spreadRetryAfterMs(expectedMs: number | undefined, random: () => number): number {
  const withinMs = Math.min(MOST_MS, Math.max(LEAST_MS, expectedMs ?? UNKNOWN_MS));
  return withinMs * (1 + JITTER * (2 * random() - 1));
}

/**
 * Returns when there may be an endpoint again where there has been none for `outageMs` milliseconds, in milliseconds
 * from now; undefined where there is one, and `outageMs` is undefined. What has lasted is likely to last as long again and more:
 * so the six tries that many an agent has last for more than a minute, and a short outage is soon over for it.
 */
export function outageRetryMs(outageMs: number | undefined): number | undefined {
  return outageMs === undefined ? undefined : Math.max(LEAST_OUTAGE_MS, OUTAGE_GROWTH * outageMs);
}

/** Makes the error for a key that has as many requests waiting as it may. */
export function tooManyWaiting(retryAfterMs: number): ApiError {
  const seconds = Math.ceil(retryAfterMs) / 1_000;
  const text = `Too many requests of this key are waiting for the model. Please try again in ${seconds}s.`;
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs,
    detail: "key_pending_overflow",
  });
}

/** Makes the error for a request that endpoints died with; it is not to be sent again. */
export function requestOfDeath(): ApiError {
  return new ApiError("server_error", "The model's engines cannot process this request.", {
    detail: "request_of_death",
    shouldRetry: false,
  });
}

/** Makes the error that ends the request of a client that has left. It is logged, and not sent. */
export function clientClosed(): ApiError {
  return new ApiError("server_error", "The client closed the connection.", { detail: "downstream_remote_disconnect" });
}
