import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { Dimension, DimensionReading, Measure, PlaceLimit } from "./dimension.ts";

type Words = {
  readonly code: "rate_limit_exceeded" | "insufficient_quota";
  /** The budget that the limit is about, as `error.type` of Format A says it. */
  readonly limit: "requests" | "tokens";
  readonly text: string;
  readonly per: "min" | "day";
  /** The token of the limit over all models. */
  readonly ofKey: Detail;
  /** The token of the limit on one model, where there can be one. */
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
  /** The token of the limit over all models. */
  readonly ofKey: Detail;
  /** The token of the limit on one model, where there can be one. */
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

/**
 * The time that a caller without a place is told to wait, in milliseconds. When a place becomes free is not known;
 * answers take seconds.
 */
const PLACE_RETRY_MS = 1_000;
/** The time that a caller is told to wait while the store of the limits does not answer, in milliseconds. */
const STORE_RETRY_MS = 5_000;

/** Makes the refusal of a charge. Of several limits that refused, the one with the longest wait is named. */
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
    // A client that repeats cannot win before midnight. Of a rate, clients' own rule for 429 is right.
    ...(spent && { shouldRetry: false }),
    detail: model === undefined ? ofKey : (ofModel ?? ofKey),
  });
}

/** Makes the refusal of a request for which no place is free. */
export function placesTaken({ of, limit, model }: PlaceLimit): ApiError {
  const { text, ofKey, ofModel } = PLACE_WORDS[of];
  const words = `Rate limit reached for ${text}${onModel(model)}: limit ${limit}. ${tryAgain(PLACE_RETRY_MS)}`;
  return new ApiError("rate_limit_exceeded", words, {
    limit: "requests",
    retryAfterMs: PLACE_RETRY_MS,
    detail: model === undefined ? ofKey : (ofModel ?? ofKey),
  });
}

/** Makes the refusal of a request whose limits nobody can tell, where the gateway is to let nobody in without them. */
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
 * Returns the words for the model that a limit is on, "" for a limit on all. A model with limits of its own stands in
 * the catalog, so its id is not the caller's text.
 */
function onModel(model: Dimension["model"]): string {
  return model === undefined ? "" : ` on ${model}`;
}

/** Returns the sentence that says when to come again. Agents read the time out of it: seconds, as a decimal number. */
function tryAgain(ms: number): string {
  return `Please try again in ${ms / 1000}s.`;
}
