import type { KeyLimits } from "../keys/key-record.ts";
import type { Principal } from "../keys/principal.ts";
import type { LimitRule, Reading } from "./limit-store.ts";

/** Per minute: requests, CountTokens requests, input and output tokens; per day: tokens. */
export type Measure = "rpm" | "countRpm" | "itpm" | "otpm" | "tokensPerDay";

export type Dimension = {
  readonly measure: Measure;
  /** Catalog id of the limited model; undefined for a limit over all models. */
  readonly model: string | undefined;
  /** Limit in the key's record: units of the measure per minute, or per day. */
  readonly limit: number;
  /** Name of the count in the limit store, unique within the key. */
  readonly name: string;
  readonly rule: LimitRule;
};

export type DimensionReading = { readonly dimension: Dimension; readonly reading: Reading };

export type PlaceLimit = {
  readonly of: "generations" | "counts";
  /** Name of the places in the limit store, unique within the key. */
  readonly name: string;
  readonly limit: number;
  readonly model: string | undefined;
};

type Rates = Pick<KeyLimits, "rpm" | "itpm" | "otpm" | "concurrency">;

export function generationDimensions({ limits, quota }: Principal): Dimension[] {
  const total = quota.tokensPerDay;
  if (total === undefined) return rateDimensions(limits, undefined);
  const daily = { measure: "tokensPerDay", model: undefined, limit: total, name: "tokensPerDay" } as const;
  return [...rateDimensions(limits, undefined), { ...daily, rule: { kind: "day", total } }];
}

export function modelDimensions({ limits }: Principal, model: string): Dimension[] {
  const rates = ratesOf(limits, model);
  return rates ? rateDimensions(rates, model) : [];
}

/** Returns the limits on counting tokens: the same requests per minute as for generations, counted separately. */
export function countDimensions({ limits }: Principal): Dimension[] {
  return limits.rpm === undefined ? [] : [perMinute("countRpm", limits.rpm, undefined)];
}

/** Returns the limit on concurrent generations, of all models or of `model`; undefined if there is none. */
export function placesOf({ limits }: Principal, model: string | undefined): PlaceLimit | undefined {
  const limit = (model === undefined ? limits : ratesOf(limits, model))?.concurrency;
  return limit === undefined ? undefined : { of: "generations", name: nameOf("concurrency", model), limit, model };
}

export function countPlacesOf({ limits }: Principal, everyKey: number): PlaceLimit {
  const limit = limits.countConcurrency ?? everyKey;
  return { of: "counts", name: "countConcurrency", limit, model: undefined };
}

/** Only own properties are read: a caller's model name may equal an inherited one. */
function ratesOf({ perModel }: KeyLimits, model: string): Rates | undefined {
  return perModel && Object.hasOwn(perModel, model) ? perModel[model] : undefined;
}

function rateDimensions({ rpm, itpm, otpm }: Rates, model: string | undefined): Dimension[] {
  return [
    ...(rpm === undefined ? [] : [perMinute("rpm", rpm, model)]),
    ...(itpm === undefined ? [] : [perMinute("itpm", itpm, model)]),
    ...(otpm === undefined ? [] : [perMinute("otpm", otpm, model)]),
  ];
}

/** A rested key may use the whole minute at once: agents send their turns in bursts. */
function perMinute(measure: Measure, limit: number, model: string | undefined): Dimension {
  const rule = { kind: "bucket", perMinute: limit, capacity: limit } as const;
  return { measure, model, limit, name: nameOf(measure, model), rule };
}

function nameOf(what: string, model: string | undefined): string {
  return model === undefined ? what : `${what}:${model}`;
}
