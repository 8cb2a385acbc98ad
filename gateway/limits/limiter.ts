import type { ApiError } from "../errors.ts";
import type { Principal } from "../keys/principal.ts";
import {
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
import type { LimitStore } from "./limit-store.ts";

/**
 * Tokens that are charged in advance if the output length is unknown; the rest is charged as it arrives. Agents always
 * allow tens of thousands of output tokens: reserving all of them would leave their keys unused.
 */
const OUTPUT_RESERVE_TOKENS = 1_024;

/** How a request uses a key's limits: it generates, counts tokens, or only reads their state. */
export type Use = "generation" | "count" | "none";

export type LimiterOptions = {
  readonly store: LimitStore;
  readonly cachedInputWeight: number;
  /** Concurrent token counts of a key whose record has no limit, at least 1. */
  readonly countConcurrency: number;
};

export type Expected = {
  readonly model: string;
  readonly inputTokens: number;
  readonly maxOutputTokens: number | undefined;
};

/** The decision about a request before its body is read. */
export type Admission = {
  /** The charges of the request. They have to be settled and released, also after a refusal. */
  readonly grant: Grant;
  readonly refusal: ApiError | undefined;
};

export type LimitLevels = {
  readonly counted: readonly DimensionReading[];
  /** Limits on concurrency; `taken` counts the places of this gateway only. */
  readonly places: readonly (PlaceLimit & { readonly taken: number })[];
};

/** Applies the limits in the record of a key to its requests. A key without limits is never refused. */
export class Limiter {
  readonly #options: LimiterOptions;

  constructor(options: LimiterOptions) {
    this.#options = options;
  }

  /**
   * Takes a place and one request before the body is read. A key with a token debt or an exhausted quota is refused
   * here, too. If the store is remote and will be asked for tokens anyway, all charges are sent together then, unless a
   * refusal is likely.
   */
  async admit(principal: Principal, use: Use): Promise<Admission> {
    const { store, cachedInputWeight } = this.#options;
    const grant = new Grant({ store, keyId: principal.keyId, cachedInputWeight });
    const [places, costs] = [this.#admissionPlaces(principal, use), this.#admissionCosts(principal, use)];
    if (use === "generation" && this.#asksForMore(principal) && grant.postpone(places, costs))
      return { grant, refusal: undefined };
    const refusal = await grant.take(places, costs);
    if (refusal) abandon(grant);
    return { grant, refusal };
  }

  /** Takes the tokens and the model's own charges. Returns the refusal, after which the request does not count. */
  async reserve(grant: Grant, principal: Principal, expected: Expected): Promise<ApiError | undefined> {
    const { model, inputTokens: input, maxOutputTokens } = expected;
    const output = Math.min(maxOutputTokens ?? OUTPUT_RESERVE_TOKENS, OUTPUT_RESERVE_TOKENS);
    const tokens = generationDimensions(principal).filter(isTokenRate);
    const wanted = [...tokens, ...modelDimensions(principal, model)].map((dimension): Wanted => {
      if (!isTokenRate(dimension)) return { dimension, cost: 1 };
      return { dimension, cost: dimension.measure === "itpm" ? input : output };
    });
    const refusal = await grant.take(placesOf(principal, model), wanted);
    if (refusal) abandon(grant);
    else grant.expect({ input, output });
    return refusal;
  }

  async look(principal: Principal): Promise<LimitLevels> {
    const { keyId, limits } = principal;
    const models = [undefined, ...Object.keys(limits.perModel ?? {})];
    const counts = countPlacesOf(principal, this.#options.countConcurrency);
    const places = [...models.flatMap((model) => placesOf(principal, model) ?? []), counts];
    const counted = [
      ...generationDimensions(principal),
      ...countDimensions(principal),
      ...models.flatMap((model) => (model === undefined ? [] : modelDimensions(principal, model))),
    ];
    const items = counted.map(({ name, rule }) => ({ name, rule, cost: undefined }));
    const { readings } = await this.#options.store.charge(keyId, items);
    return {
      counted: counted.flatMap((dimension, at) => {
        const reading = readings[at];
        return reading ? [{ dimension, reading }] : [];
      }),
      places: places.map((one) => ({ ...one, taken: this.#options.store.held(keyId, one.name) })),
    };
  }

  /** Whether a key has limits whose cost depends on the body of a generation. */
  #asksForMore({ limits }: Principal): boolean {
    return limits.itpm !== undefined || limits.otpm !== undefined || limits.perModel !== undefined;
  }

  #admissionPlaces(principal: Principal, use: Use): PlaceLimit | undefined {
    if (use === "count") return countPlacesOf(principal, this.#options.countConcurrency);
    return use === "generation" ? placesOf(principal, undefined) : undefined;
  }

  #admissionCosts(principal: Principal, use: Use): Wanted[] {
    const own = generationDimensions(principal);
    const look = (dimension: Dimension): Wanted => ({ dimension, cost: undefined });
    if (use === "none") return own.map(look);
    if (use === "generation") return own.map((dimension) => ({ dimension, cost: dimension.measure === "rpm" ? 1 : 0 }));
    const counts = countDimensions(principal).map((dimension): Wanted => ({ dimension, cost: 1 }));
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
