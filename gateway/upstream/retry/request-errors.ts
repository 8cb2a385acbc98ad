import { ApiError } from "../../errors.ts";

/** The key has as many requests waiting as it may. */
export function tooManyWaiting(retryAfterMs: number): ApiError {
  const seconds = Math.ceil(retryAfterMs) / 1_000;
  const text = `Too many requests of this key are waiting for the model. Please try again in ${seconds}s.`;
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs,
    detail: "key_pending_overflow",
  });
}

/** It has taken engines down: nobody shall try it again. */
export function requestOfDeath(): ApiError {
  return new ApiError("server_error", "The model's engines cannot process this request.", {
    detail: "request_of_death",
    shouldRetry: false,
  });
}

/** Nobody is left to read this one; it ends what is under way. */
export function clientClosed(): ApiError {
  return new ApiError("server_error", "The client closed the connection.", { detail: "downstream_remote_disconnect" });
}
