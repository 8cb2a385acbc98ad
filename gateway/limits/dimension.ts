import type { KeyLimits } from "../keys/key-record.ts";
import type { Principal } from "../keys/principal.ts";
import type { LimitRule, Reading } from "./limit-store.ts";
import { type CountMeasure, MEASURES, type Measure, type Rates } from "./measures.ts";

export type Dimension = {
  readonly measure: Measure;
  /** Catalog id of the limited model; undefined for a limit over all models. */
  readonly model: string | undefined;
  /** Limit in the key's record: units per window of the measure. */
  readonly limit: number;
  /** Name of the count in the limit store, unique within the key. */
  readonly name: string;
  readonly rule: LimitRule;
};

export type DimensionReading = { readonly dimension: Dimension; readonly reading: Reading };

export type PermitLimit = {
  readonly of: "generations" | "counts";
  /** Name of the permits in the limit store, unique within the key. */
  readonly name: string;
  readonly limit: number;
  readonly model: string | undefined;
};

/** Concurrent token counts of a key whose record has no limit of its own; agents send bursts of 24. */
const COUNT_CONCURRENCY = 32;

const NAMES = Object.keys(MEASURES) as Measure[];

/** Returns the limits over all models. Token counts have the rate of generations, counted separately. */
export function keyDimensions({ limits, quota }: Principal): Dimension[] {
  const counting: Readonly<Record<CountMeasure, number | undefined>> = { countRpm: limits.rpm };
  return dimensionsOf({ ...limits, ...quota, ...counting }, undefined);
}

export function modelDimensions({ limits }: Principal, model: string): Dimension[] {
  return dimensionsOf(ratesOf(limits, model) ?? {}, model);
}

/** Returns the limit on concurrent generations, of all models or of `model`; undefined if there is none. */
export function permitsOf({ limits }: Principal, model: string | undefined): PermitLimit | undefined {
  const limit = (model === undefined ? limits : ratesOf(limits, model))?.concurrency;
  return limit === undefined ? undefined : { of: "generations", name: nameOf("concurrency", model), limit, model };
}

export function countPermitsOf({ limits }: Principal): PermitLimit {
  const limit = limits.countConcurrency ?? COUNT_CONCURRENCY;
  return { of: "counts", name: "countConcurrency", limit, model: undefined };
}

/** Only own properties are read: a caller's model name may equal an inherited one. */
function ratesOf({ perModel }: KeyLimits, model: string): Rates | undefined {
  return perModel && Object.hasOwn(perModel, model) ? perModel[model] : undefined;
}

function dimensionsOf(limits: Partial<Record<Measure, number | undefined>>, model: string | undefined): Dimension[] {
  return NAMES.flatMap((measure) => {
    const limit = limits[measure];
    if (limit === undefined) return [];
    return { measure, model, limit, name: nameOf(measure, model), rule: ruleOf(measure, limit) };
  });
}

/** A rested key may use the whole minute at once: agents send their turns in bursts. */
function ruleOf(measure: Measure, limit: number): LimitRule {
  if (MEASURES[measure].window === "day") return { kind: "day", total: limit };
  return { kind: "bucket", perMinute: limit, capacity: limit };
}

function nameOf(what: string, model: string | undefined): string {
  return model === undefined ? what : `${what}:${model}`;
}
