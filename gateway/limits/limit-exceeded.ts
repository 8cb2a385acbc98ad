import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { Dimension, DimensionReading, Measure, PlaceLimit } from "./dimension.ts";

type Words = {
  readonly code: "rate_limit_exceeded" | "insufficient_quota";
  /** The exceeded budget, as `error.type` of Format A. */
  readonly limit: "requests" | "tokens";
  readonly text: string;
  readonly per: "min" | "day";
  readonly ofKey: Detail;
  readonly ofModel?: Detail;
};

const WORDS: Readonly<Record<Measure, Words>> = {
  rpm: {
    code: "rate_limit_exceeded",
    limit: "requests",
    text: "requests",
    per: "min",
    ofKey: "key_rpm_exceeded",
    ofModel: "key_model_rpm_exceeded",
  },
  countRpm: {
    code: "rate_limit_exceeded",
    limit: "requests",
    text: "token counts",
    per: "min",
    ofKey: "key_count_rpm_exceeded",
  },
  itpm: {
    code: "rate_limit_exceeded",
    limit: "tokens",
    text: "input tokens",
    per: "min",
    ofKey: "key_itpm_exceeded",
    ofModel: "key_model_itpm_exceeded",
  },
  otpm: {
    code: "rate_limit_exceeded",
    limit: "tokens",
    text: "output tokens",
    per: "min",
    ofKey: "key_otpm_exceeded",
    ofModel: "key_model_otpm_exceeded",
  },
  tokensPerDay: {
    code: "insufficient_quota",
    limit: "tokens",
    text: "tokens",
    per: "day",
    ofKey: "key_quota_exceeded",
  },
};

type PlaceWords = {
  readonly text: string;
  readonly ofKey: Detail;
  readonly ofModel?: Detail;
};

const PLACE_WORDS: Readonly<Record<PlaceLimit["of"], PlaceWords>> = {
  generations: {
    text: "concurrent requests",
    ofKey: "key_concurrency_exceeded",
    ofModel: "key_model_concurrency_exceeded",
  },
  counts: { text: "concurrent token counts", ofKey: "key_count_concurrency_exceeded" },
};

/** Retry delay, in milliseconds, if no place is free. When a place becomes free is unknown; answers take seconds. */
const PLACE_RETRY_MS = 1_000;
/** Retry delay, in milliseconds, while the store of the limits does not answer. */
const STORE_RETRY_MS = 5_000;

/** Makes the error of a refused charge. If several limits refused it, the one with the longest wait is named. */
export function limitExceeded(readings: readonly DimensionReading[]): ApiError {
  const worst = readings.reduce((a, b) => (b.reading.waitMs > a.reading.waitMs ? b : a));
  const { measure, limit, model } = worst.dimension;
  const { code, text, per, ofKey, ofModel, ...words } = WORDS[measure];
  const { waitMs } = worst.reading;
  const spent = code === "insufficient_quota";
  const reached = spent ? "Quota used up" : "Rate limit reached";
  const opens = spent ? "The quota opens again at 00:00 UTC. " : "";
  const wording = `${reached} for ${text}${onModel(model)}: limit ${limit}/${per}. ${opens}${tryAgain(waitMs)}`;
  return new ApiError(code, wording, {
    limit: words.limit,
    retryAfterMs: waitMs,
    // A retry before midnight cannot succeed. For a rate, the clients' default for 429 is right.
    ...(spent && { shouldRetry: false }),
    detail: model === undefined ? ofKey : (ofModel ?? ofKey),
  });
}

export function placesTaken({ of, limit, model }: PlaceLimit): ApiError {
  const { text, ofKey, ofModel } = PLACE_WORDS[of];
  const words = `Rate limit reached for ${text}${onModel(model)}: limit ${limit}. ${tryAgain(PLACE_RETRY_MS)}`;
  return new ApiError("rate_limit_exceeded", words, {
    limit: "requests",
    retryAfterMs: PLACE_RETRY_MS,
    detail: model === undefined ? ofKey : (ofModel ?? ofKey),
  });
}

export function limitsUnknown(): ApiError {
  return new ApiError(
    "server_is_overloaded",
    `The limits of your key cannot be checked now. ${tryAgain(STORE_RETRY_MS)}`,
    {
      retryAfterMs: STORE_RETRY_MS,
      detail: "limit_store_away",
    },
  );
}

/**
 * Returns the text for the limited model, "" for a limit over all models. A model with limits of its own is in the
 * catalog, so its id is not the caller's text.
 */
function onModel(model: Dimension["model"]): string {
  return model === undefined ? "" : ` on ${model}`;
}

/** Returns the sentence with the retry delay. Agents parse it: seconds, as a decimal number. */
function tryAgain(ms: number): string {
  return `Please try again in ${ms / 1000}s.`;
}
