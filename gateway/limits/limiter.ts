import type { ApiError } from "../errors.ts";
import type { Principal } from "../keys/principal.ts";
import {
  countPermitsOf,
  type Dimension,
  type DimensionReading,
  keyDimensions,
  modelDimensions,
  type PermitLimit,
  permitsOf,
} from "./dimension.ts";
import { Grant, type Wanted } from "./grant.ts";
import type { LimitStore } from "./limit-store.ts";
import { MEASURES, type Unit } from "./measures.ts";

/**
 * Tokens that are charged in advance if the output length is unknown; the rest is charged as it arrives. Agents always
 * allow tens of thousands of output tokens: reserving all of them would leave their keys unused.
 */
const OUTPUT_RESERVE_TOKENS = 1_024;

/** How a request uses a key's limits: it generates, counts tokens, or only reads their state. */
export type Use = "generation" | "count" | "none";

/** The cost of a request by the unit of a limit; `read` charges nothing, and undefined leaves the limit out. */
type Costs = Readonly<Record<Unit, number | "read" | undefined>>;

/** Before the body is read: 0 refuses a key with a token debt or an exhausted quota. */
const AT_ADMISSION: Readonly<Record<Use, Costs>> = {
  generation: { requests: 1, counts: undefined, input: 0, output: 0, tokens: 0 },
  count: { requests: undefined, counts: 1, input: "read", output: "read", tokens: undefined },
  none: { requests: "read", counts: undefined, input: "read", output: "read", tokens: "read" },
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
  /** Limits on concurrency; `taken` counts the permits of this gateway only. */
  readonly permits: readonly (PermitLimit & { readonly taken: number })[];
};

/** Applies the limits in the record of a key to its requests. A key without limits is never refused. */
export class Limiter {
  readonly #store: LimitStore;

  constructor(store: LimitStore) {
    this.#store = store;
  }

  /**
   * Takes a permit and one request before the body is read. A key with a token debt or an exhausted quota is refused
   * here, too. If the store is remote and will be asked for tokens anyway, all charges are sent together then, unless a
   * refusal is likely.
   */
  async admit(principal: Principal, use: Use): Promise<Admission> {
    const grant = new Grant(this.#store, principal.keyId);
    const permits = this.#admissionPermits(principal, use);
    const dimensions = keyDimensions(principal);
    const costs = wanted(dimensions, AT_ADMISSION[use]);
    const asksForMore = principal.limits.perModel || wanted(dimensions, bodyCosts(0, 0)).length > 0;
    if (use === "generation" && asksForMore && grant.postpone(permits, costs)) return { grant, refusal: undefined };
    const refusal = await grant.take(permits, costs);
    if (refusal) abandon(grant);
    return { grant, refusal };
  }

  /** Takes the tokens and the model's own charges. Returns the refusal, after which the request does not count. */
  async reserve(grant: Grant, principal: Principal, expected: Expected): Promise<ApiError | undefined> {
    const { model, inputTokens: input, maxOutputTokens } = expected;
    const output = Math.min(maxOutputTokens ?? OUTPUT_RESERVE_TOKENS, OUTPUT_RESERVE_TOKENS);
    const ofKey = bodyCosts(input, output);
    const refusal = await grant.take(permitsOf(principal, model), [
      ...wanted(keyDimensions(principal), ofKey),
      ...wanted(modelDimensions(principal, model), { ...ofKey, requests: 1, tokens: 0 }),
    ]);
    if (refusal) abandon(grant);
    else grant.expect({ input, output });
    return refusal;
  }

  async look(principal: Principal): Promise<LimitLevels> {
    const { keyId, limits } = principal;
    const models = [undefined, ...Object.keys(limits.perModel ?? {})];
    const counts = countPermitsOf(principal);
    const permits = [...models.flatMap((model) => permitsOf(principal, model) ?? []), counts];
    const counted = [
      ...keyDimensions(principal),
      ...models.flatMap((model) => (model === undefined ? [] : modelDimensions(principal, model))),
    ];
    const items = counted.map(({ name, rule }) => ({ name, rule, cost: undefined }));
    const { readings } = await this.#store.charge(keyId, items);
    return {
      counted: counted.flatMap((dimension, at) => {
        const reading = readings[at];
        return reading ? [{ dimension, reading }] : [];
      }),
      permits: permits.map((one) => ({ ...one, taken: this.#store.held(keyId, one.name) })),
    };
  }

  #admissionPermits(principal: Principal, use: Use): PermitLimit | undefined {
    if (use === "count") return countPermitsOf(principal);
    return use === "generation" ? permitsOf(principal, undefined) : undefined;
  }
}

/** What the body adds to the charges of the key, of which the request itself was charged at its admission. */
function bodyCosts(input: number, output: number): Costs {
  return { requests: undefined, counts: undefined, input, output, tokens: undefined };
}

function wanted(dimensions: readonly Dimension[], costs: Costs): Wanted[] {
  return dimensions.flatMap((dimension) => {
    const cost = costs[MEASURES[dimension.measure].unit];
    return cost === undefined ? [] : { dimension, cost: cost === "read" ? undefined : cost };
  });
}

function abandon(grant: Grant): void {
  grant.refund();
  grant.release();
}
