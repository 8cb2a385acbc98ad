import type { KeyLimits } from "../keys/key-record.ts";
import type { Principal } from "../keys/principal.ts";
import type { LimitRule, Reading } from "./limit-store.ts";

/**
 * The measure of a limit: requests per minute (`rpm`), CountTokens requests per minute (`countRpm`), input or output
 * tokens per minute (`itpm`, `otpm`), tokens per day (`tokensPerDay`).
 */
export type Measure = "rpm" | "countRpm" | "itpm" | "otpm" | "tokensPerDay";

/** One limit of a key on what it uses over time. */
export type Dimension = {
  /** The measure of what this limit counts. */
  readonly measure: Measure;
  /** The catalog id of the one model that the limit is for; undefined for a limit on all models together. */
  readonly model: string | undefined;
  /** The limit as the key's record says it: units of the measure per minute, or per day. */
  readonly limit: number;
  /** The name of the count in the limit store, unique within the key. */
  readonly name: string;
  /** The rule by which the store counts: a bucket or a total per day. */
  readonly rule: LimitRule;
};

/** A limit, and the reading of how it stood when the store was last asked. */
export type DimensionReading = { readonly dimension: Dimension; readonly reading: Reading };

/**
 * The bursts that a key may have after a rest, as the seconds whose inflow of a limit per minute it may use at once:
 * for requests and for tokens.
 */
export type BurstSettings = { readonly requestBurstSeconds: number; readonly tokenBurstSeconds: number };

/** A limit on what a key has under way at one time. */
export type PlaceLimit = {
  /** What takes the places: generations or token counts. */
  readonly of: "generations" | "counts";
  /** The name of the places in the limit store, unique within the key. */
  readonly name: string;
  /** The number of places, at least 1. */
  readonly limit: number;
  /** The catalog id of the one model that the limit is for; undefined for a limit on all models together. */
  readonly model: string | undefined;
};

type Rates = Pick<KeyLimits, "rpm" | "itpm" | "otpm" | "concurrency">;

/** Returns the limits of a key that every generation counts against, whatever its model. */
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

/** Returns the limits that a key has for one model besides its general ones. */
export function modelDimensions({ limits }: Principal, model: string, burst: BurstSettings): Dimension[] {
  const rates = ratesOf(limits, model);
  return rates ? rateDimensions(rates, model, burst) : [];
}

/** Returns the limits on counting tokens: as many requests per minute as for generating, counted apart from those. */
export function countDimensions({ limits }: Principal, burst: BurstSettings): Dimension[] {
  return limits.rpm === undefined ? [] : [perMinute("countRpm", limits.rpm, undefined, burst.requestBurstSeconds)];
}

/**
 * Returns the limit on a key's generations at one time: its general one, or the one for `model`. Undefined where the
 * record has none.
 */
export function placesOf({ limits }: Principal, model: string | undefined): PlaceLimit | undefined {
  const limit = (model === undefined ? limits : ratesOf(limits, model))?.concurrency;
  return limit === undefined ? undefined : { of: "generations", name: nameOf("concurrency", model), limit, model };
}

/** Returns the limit on a key's token counts at one time: that of its record, or `everyKey`, the one of the gateway. */
export function countPlacesOf({ limits }: Principal, everyKey: number): PlaceLimit {
  const limit = limits.countConcurrency ?? everyKey;
  return { of: "counts", name: "countConcurrency", limit, model: undefined };
}

/**
 * Returns the rates of one model; undefined where the record has none for it. It looks at own properties only, as a
 * caller's model could be called like something that every object has.
 */
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
