import type { KeyLimits, KeyQuota } from "../keys/key-record.ts";
import type { Detail } from "../outcome.ts";

/** Limits in the record of a key, or of one model in it. */
export type Rates = NonNullable<KeyLimits["perModel"]>[string];
type Rate = Exclude<keyof Rates, "concurrency">;
/** Limits on counting tokens, which have no field of their own. */
export type CountMeasure = "countRpm";
export type Measure = Rate | keyof KeyQuota | CountMeasure;

/** The `…-ratelimit-…` headers; Format A has the first two only. */
export const HEADERS = ["requests", "tokens", "input-tokens", "output-tokens"] as const;

/** The unit of a limit, which decides when and how much a request is charged. */
export type Unit = "requests" | "counts" | "input" | "output" | "tokens";

type UnitRow = {
  /** The exceeded budget, as `error.type` of Format A. */
  readonly budget: "requests" | "tokens";
  readonly text: string;
  readonly headers: readonly (typeof HEADERS)[number][];
};

export const UNITS: Readonly<Record<Unit, UnitRow>> = {
  /** 1 for an admitted generation. */
  requests: { budget: "requests", text: "requests", headers: ["requests"] },
  /** 1 for an admitted CountTokens request. */
  counts: { budget: "requests", text: "token counts", headers: ["requests"] },
  /** Input tokens: estimated first, then as an engine counts them, without cached ones. */
  input: { budget: "tokens", text: "input tokens", headers: ["tokens", "input-tokens"] },
  /** Output tokens: the expected ones first, then as they arrive. */
  output: { budget: "tokens", text: "output tokens", headers: ["tokens", "output-tokens"] },
  /** Input and output tokens that engines have counted, charged at the end. */
  tokens: { budget: "tokens", text: "tokens", headers: [] },
};

/** Detail tokens of the refusals by a limit over all models, and by that of one model. */
export type Refusals = { readonly ofKey: Detail; readonly ofModel?: Detail };

/** A rate refills evenly within a minute; a quota of a day opens again at 00:00 UTC. */
type MeasureRow = Refusals & { readonly unit: Unit; readonly window: "minute" | "day" };

/** All limits that are counted, in the order of charges. */
export const MEASURES: Readonly<Record<Rate, Required<MeasureRow>> & Record<Exclude<Measure, Rate>, MeasureRow>> = {
  rpm: { unit: "requests", window: "minute", ofKey: "key_rpm_exceeded", ofModel: "key_model_rpm_exceeded" },
  itpm: { unit: "input", window: "minute", ofKey: "key_itpm_exceeded", ofModel: "key_model_itpm_exceeded" },
  otpm: { unit: "output", window: "minute", ofKey: "key_otpm_exceeded", ofModel: "key_model_otpm_exceeded" },
  tokensPerDay: { unit: "tokens", window: "day", ofKey: "key_quota_exceeded" },
  countRpm: { unit: "counts", window: "minute", ofKey: "key_count_rpm_exceeded" },
};
