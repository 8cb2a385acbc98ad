import type { KeyLimits } from "../keys/key-record.ts";
import type { Principal } from "../keys/principal.ts";
import type { LimitRule, Reading } from "./limit-store.ts";

/** What is counted: requests, counts of tokens, input and output tokens per minute, tokens per day. */
export type Measure = "rpm" | "countRpm" | "itpm" | "otpm" | "tokensPerDay";

/** One limit of a key that counts use. */
export type Dimension = {
  readonly measure: Measure;
  /** The model that it is for alone; undefined: all together. */
  readonly model: string | undefined;
  /** As the record says it: per minute, or per day. */
  readonly limit: number;
  /** Names the count in the store. */
  readonly name: string;
  readonly rule: LimitRule;
};

/** How a dimension stood when it was last asked. */
export type DimensionReading = { readonly dimension: Dimension; readonly reading: Reading };

/** How much of a minute's limit may be used in one burst after a rest: what flows in during so many seconds. */
export type BurstSettings = { readonly requestBurstSeconds: number; readonly tokenBurstSeconds: number };

/** A limit on generations at one time. */
export type PlaceLimit = { readonly name: string; readonly limit: number; readonly model: string | undefined };

type Rates = Pick<KeyLimits, "rpm" | "itpm" | "otpm" | "concurrency">;

/** The key's own limits for generating: what every request is held against, whatever its model. */
export function generationDimensions({ limits, quota }: Principal, burst: BurstSettings): Dimension[] {
  const { tokensPerDay } = quota;
  const daily: Dimension[] =
    tokensPerDay === undefined
      ? []
      : [
          {
            measure: "tokensPerDay",
            model: undefined,
            limit: tokensPerDay,
            name: "tokensPerDay",
            rule: { kind: "day", total: tokensPerDay },
          },
        ];
  return [...rateDimensions(limits, undefined, burst), ...daily];
}

/** The limits that the key has for one model besides. */
export function modelDimensions({ limits }: Principal, model: string, burst: BurstSettings): Dimension[] {
  const rates = ratesOf(limits, model);
  return rates ? rateDimensions(rates, model, burst) : [];
}

/** Counting tokens has as many requests per minute as generating, and neither takes from the other. */
export function countDimensions({ limits }: Principal, burst: BurstSettings): Dimension[] {
  return limits.rpm === undefined ? [] : [perMinute("countRpm", limits.rpm, undefined, burst.requestBurstSeconds)];
}

/** The limits on generations at one time: the key's own, or those for `model`. */
export function placesOf({ limits }: Principal, model: string | undefined): PlaceLimit | undefined {
  const limit = (model === undefined ? limits : ratesOf(limits, model))?.concurrency;
  return limit === undefined ? undefined : { name: nameOf("concurrency", model), limit, model };
}

/** Own properties only: a model is never called like something that every object has. */
function ratesOf({ perModel }: KeyLimits, model: string): Rates | undefined {
  return perModel && Object.hasOwn(perModel, model) ? perModel[model] : undefined;
}

function rateDimensions({ rpm, itpm, otpm }: Rates, model: string | undefined, burst: BurstSettings): Dimension[] {
  const { requestBurstSeconds, tokenBurstSeconds } = burst;
  return [
    ...(rpm === undefined ? [] : [perMinute("rpm", rpm, model, requestBurstSeconds)]),
    ...(itpm === undefined ? [] : [perMinute("itpm", itpm, model, tokenBurstSeconds)]),
    ...(otpm === undefined ? [] : [perMinute("otpm", otpm, model, tokenBurstSeconds)]),
  ];
}

function perMinute(measure: Measure, limit: number, model: string | undefined, burstSeconds: number): Dimension {
  // Below 1 not even a single one could ever be there.
  const capacity = Math.max(1, (limit * burstSeconds) / 60);
  return { measure, model, limit, name: nameOf(measure, model), rule: { kind: "bucket", perMinute: limit, capacity } };
}

function nameOf(what: string, model: string | undefined): string {
  return model === undefined ? what : `${what}:${model}`;
}
