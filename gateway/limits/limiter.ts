import type { ApiError } from "../errors.ts";
import type { Principal } from "../keys/principal.ts";
import {
  type BurstSettings,
  countDimensions,
  countPlacesOf,
  type Dimension,
  type DimensionReading,
  generationDimensions,
  modelDimensions,
  type PlaceLimit,
  placesOf,
} from "./dimension.ts";
import { Grant, type Wanted } from "./grant.ts";
import { HeldPlaces } from "./held-places.ts";
import type { LimitStore } from "./limit-store.ts";

/**
 * The tokens that a request of unknown length is taken to write; the rest is charged as it comes. Agents always ask for
 * room for tens of thousands of tokens: reserving all of it would idle their keys.
 */
const OUTPUT_RESERVE_TOKENS = 1_024;

/** The use that a request makes of a key's limits: it generates, counts tokens, or only asks how the limits stand. */
export type Use = "generation" | "count" | "none";

/** What a limiter works with. */
export type LimiterOptions = BurstSettings & {
  /** The store of the counts of all keys. */
  readonly store: LimitStore;
  /** The part of a token that an input token counts which was read from the cache, from 0 to 1. */
  readonly cachedInputWeight: number;
  /** The most token counts at one time of a key whose record does not say, at least 1. */
  readonly countConcurrency: number;
};

/** What a generation is expected to use. */
export type Expected = {
  /** The catalog id of the model. */
  readonly model: string;
  /** The estimated tokens of the prompt. */
  readonly inputTokens: number;
  /** The most tokens that the answer may have; undefined for as many as fit into the context window. */
  readonly maxOutputTokens: number | undefined;
};

/** The decision about a request before its body is read. */
export type Admission = {
  /** What the request was charged. It has to be ended and released, also after a refusal. */
  readonly grant: Grant;
  /** Why the request may not go on; undefined when it may. */
  readonly refusal: ApiError | undefined;
};

/** How all limits of a key stand. */
export type LimitLevels = {
  /** The limits on use over time. */
  readonly counted: readonly DimensionReading[];
  /** The limits on generations and token counts at one time; `taken` counts those of this gateway only. */
  readonly places: readonly (PlaceLimit & { readonly taken: number })[];
};

/** Holds requests against the limits in the record of their key. A key without limits is never refused. */
export class Limiter {
  readonly #options: LimiterOptions;
  readonly #held = new HeldPlaces();

  constructor(options: LimiterOptions) {
    this.#options = options;
  }

  /**
   * Takes a place and one request before the body is read. A key that owes tokens or has used up its quota is refused
   * here, too. Where the store is far away and will be asked for tokens anyway, all of that is asked then, unless it is
   * likely to be refused.
   */
  async admit(principal: Principal, use: Use): Promise<Admission> {
    const { store, cachedInputWeight } = this.#options;
    const grant = new Grant({ store, held: this.#held, keyId: principal.keyId, cachedInputWeight });
    const [places, costs] = [this.#admissionPlaces(principal, use), this.#admissionCosts(principal, use)];
    if (use === "generation" && this.#asksForMore(principal) && grant.postpone(places, costs))
      return { grant, refusal: undefined };
    const refusal = await grant.take(places, costs);
    if (refusal) abandon(grant);
    return { grant, refusal };
  }

  /**
   * Takes the expected tokens once the body is understood, and what the model's own limits ask. Returns the refusal,
   * after which the request does not count, or undefined.
   */
  async reserve(grant: Grant, principal: Principal, expected: Expected): Promise<ApiError | undefined> {
    const { model, inputTokens: input, maxOutputTokens } = expected;
    const output = Math.min(maxOutputTokens ?? OUTPUT_RESERVE_TOKENS, OUTPUT_RESERVE_TOKENS);
    const tokens = generationDimensions(principal, this.#options).filter(isTokenRate);
    const wanted = [...tokens, ...modelDimensions(principal, model, this.#options)].map((dimension): Wanted => {
      if (!isTokenRate(dimension)) return { dimension, cost: 1 };
      return { dimension, cost: dimension.measure === "itpm" ? input : output };
    });
    const refusal = await grant.take(placesOf(principal, model), wanted);
    if (refusal) abandon(grant);
    else grant.expect({ input, output });
    return refusal;
  }

  /** Reads how all limits of a key stand, for operators. It changes nothing. */
  async look(principal: Principal): Promise<LimitLevels> {
    const { keyId, limits } = principal;
    const models = [undefined, ...Object.keys(limits.perModel ?? {})];
    const counts = countPlacesOf(principal, this.#options.countConcurrency);
    const places = [...models.flatMap((model) => placesOf(principal, model) ?? []), counts];
    const counted = [
      ...generationDimensions(principal, this.#options),
      ...countDimensions(principal, this.#options),
      ...models.flatMap((model) => (model === undefined ? [] : modelDimensions(principal, model, this.#options))),
    ];
    const items = counted.map(({ name, rule }) => ({ name, rule, cost: undefined }));
    const { readings } = await this.#options.store.charge(keyId, items);
    return {
      counted: counted.flatMap((dimension, at) => {
        const reading = readings[at];
        return reading ? [{ dimension, reading }] : [];
      }),
      places: places.map((one) => ({ ...one, taken: this.#held.of(keyId, one.name) })),
    };
  }

  /** Whether a key has limits that only the body of a generation says what to ask of. */
  #asksForMore({ limits }: Principal): boolean {
    return limits.itpm !== undefined || limits.otpm !== undefined || limits.perModel !== undefined;
  }

  #admissionPlaces(principal: Principal, use: Use): PlaceLimit | undefined {
    if (use === "count") return countPlacesOf(principal, this.#options.countConcurrency);
    return use === "generation" ? placesOf(principal, undefined) : undefined;
  }

  #admissionCosts(principal: Principal, use: Use): Wanted[] {
    const own = generationDimensions(principal, this.#options);
    const look = (dimension: Dimension): Wanted => ({ dimension, cost: undefined });
    if (use === "none") return own.map(look);
    if (use === "generation") return own.map((dimension) => ({ dimension, cost: dimension.measure === "rpm" ? 1 : 0 }));
    const counts = countDimensions(principal, this.#options).map((dimension): Wanted => ({ dimension, cost: 1 }));
    return [...counts, ...own.filter(isTokenRate).map(look)];
  }
}

function isTokenRate({ measure }: Dimension): boolean {
  return measure === "itpm" || measure === "otpm";
}

function abandon(grant: Grant): void {
  grant.refund();
  grant.release();
}
