import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { Dimension, DimensionReading, PermitLimit } from "./dimension.ts";
import { MEASURES, type Refusals, UNITS } from "./measures.ts";

const PERMITS: Readonly<Record<PermitLimit["of"], Refusals & { readonly text: string }>> = {
  generations: {
    text: "concurrent requests",
    ...{ ofKey: "key_concurrency_exceeded", ofModel: "key_model_concurrency_exceeded" },
  },
  counts: { text: "concurrent token counts", ofKey: "key_count_concurrency_exceeded" },
};

/** Retry delay, in milliseconds, if no permit is free. When a permit becomes free is unknown; answers take seconds. */
const PERMIT_RETRY_MS = 1_000;
/** Retry delay, in milliseconds, while the store of the limits does not answer. */
const STORE_RETRY_MS = 5_000;

/** Makes the error of a refused charge. If several limits refused it, the one with the longest wait is named. */
export function limitExceeded(readings: readonly DimensionReading[]): ApiError {
  const worst = readings.reduce((a, b) => (b.reading.waitMs > a.reading.waitMs ? b : a));
  const { measure, limit, model } = worst.dimension;
  const { waitMs } = worst.reading;
  const { unit, window } = MEASURES[measure];
  const spent = window === "day";
  const reached = spent ? "Quota used up" : "Rate limit reached";
  const bound = spent ? `${limit}/day. The quota opens again at 00:00 UTC` : `${limit}/min`;
  const wording = `${reached} for ${UNITS[unit].text}${onModel(model)}: limit ${bound}. ${tryAgain(waitMs)}`;
  return new ApiError(spent ? "insufficient_quota" : "rate_limit_exceeded", wording, {
    retryAfterMs: waitMs,
    // A retry before midnight cannot succeed. For a rate, the clients' default for 429 is right.
    ...(spent && { shouldRetry: false }),
    limit: UNITS[unit].budget,
    detail: detailOf(MEASURES[measure], model),
  });
}

export function permitsTaken({ of, limit, model }: PermitLimit): ApiError {
  const wording = `Rate limit reached for ${PERMITS[of].text}${onModel(model)}: limit ${limit}. ${tryAgain(PERMIT_RETRY_MS)}`;
  return new ApiError("rate_limit_exceeded", wording, {
    retryAfterMs: PERMIT_RETRY_MS,
    limit: "requests",
    detail: detailOf(PERMITS[of], model),
  });
}

function detailOf({ ofKey, ofModel = ofKey }: Refusals, model: string | undefined): Detail {
  return model === undefined ? ofKey : ofModel;
}

export function limitsUnknown(): ApiError {
  const text = `The limits of your key cannot be checked now. ${tryAgain(STORE_RETRY_MS)}`;
  return new ApiError("server_is_overloaded", text, { retryAfterMs: STORE_RETRY_MS, detail: "limit_store_away" });
}

/** "" for a limit over all models. A model with own limits is in the catalog, so its id is not the caller's text. */
function onModel(model: Dimension["model"]): string {
  return model === undefined ? "" : ` on ${model}`;
}

/** Returns the sentence with the retry delay. Agents parse it: seconds, as a decimal number. */
function tryAgain(ms: number): string {
  return `Please try again in ${ms / 1000}s.`;
}
