import type { Started, Usage } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../errors.ts";
import type { Dimension, DimensionReading, Measure, PlaceLimit } from "./dimension.ts";
import type { HeldPlaces } from "./held-places.ts";
import { limitExceeded, limitsUnknown, placesTaken } from "./limit-exceeded.ts";
import type { ChargeItem, LimitStore, Place, Postponed } from "./limit-store.ts";

/** The step, in tokens, in which output is charged that goes beyond what was expected. */
const OUTPUT_STEP_TOKENS = 256;

/** A limit and what a request is to be charged on it; a cost of undefined charges nothing and cannot be refused. */
export type Wanted = { readonly dimension: Dimension; readonly cost: number | undefined };

/** What a store will be asked together with more. */
type Later = {
  readonly places: PlaceLimit | undefined;
  readonly wanted: readonly Wanted[];
  readonly note: Postponed;
};

/** What stands charged on the limit with this name. */
type Charge = { readonly name: string; readonly measure: Measure; amount: number };

/** The tokens that a request has cost its key, as engines counted them, as far as they did. */
export type UsedTokens = {
  /** The tokens of the prompt, those included that came from the cache; 0 where no engine has counted them. */
  readonly inputTokens: number;
  /** The tokens of the prompt that came from the cache. */
  readonly cachedTokens: number;
  /** The tokens of the answer, reasoning included; its deltas, where the answer did not come to its end. */
  readonly outputTokens: number;
};

const NO_TOKENS: UsedTokens = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/** What a grant works with. */
export type GrantOptions = {
  /** The store in which charges are counted and places are taken. */
  readonly store: LimitStore;
  /** The list in which operators see the places that are held. */
  readonly held: HeldPlaces;
  /** The public id of the key that pays. */
  readonly keyId: string;
  /** The part of a token that an input token counts which was read from the cache, from 0 to 1. */
  readonly cachedInputWeight: number;
};

/**
 * Holds what one request has been charged, and the places that it takes. Charges are put right as more is known, and
 * finally by one of `settle`, `settleWithoutTokens` and `refund`; `release` gives the places back. Each may be called
 * again and late: only the first end counts.
 */
export class Grant {
  readonly #options: GrantOptions;
  /** What stands charged on the limits, one of each. A key has a handful of them, and most have none. */
  readonly #charges: Charge[] = [];
  #readings: readonly DimensionReading[] = [];
  readonly #taken: Place[] = [];
  /** What the store will be asked together with the next charge, or when the request is over. */
  #postponed: Later | undefined;
  /** The tokens of the prompt: estimated, until an engine has counted them. */
  #inputTokens = 0;
  #counted = false;
  #cachedTokens = 0;
  /** The number of deltas so far, which stand for tokens until the engine's count comes with the end. */
  #deltas = 0;
  #outputCharged = 0;
  #settled = false;
  #used: UsedTokens | undefined;
  #released = false;

  constructor(options: GrantOptions) {
    this.#options = options;
  }

  /** The readings of how the key's limits stood when they were last asked, its general ones first. */
  get readings(): readonly DimensionReading[] {
    return this.#readings;
  }

  /** What the request has cost its key; undefined until it is over, and for one that does not count at all. */
  get used(): UsedTokens | undefined {
    return this.#used;
  }

  /**
   * Leaves charges and places until more is known, where the store would be asked twice and nothing speaks against them.
   * Returns whether it did: then the next `take` asks for all together.
   */
  postpone(places: PlaceLimit | undefined, wanted: readonly Wanted[]): boolean {
    const { store, keyId } = this.#options;
    const note = store.postpone?.(keyId, wanted.map(itemOf), ...(places ? [places] : []));
    if (note) this.#postponed = { places, wanted, note };
    return note !== undefined;
  }

  /**
   * Takes all charges of `wanted`, and a place where `places` limits them, or nothing, with what was postponed. Returns
   * the refusal, or undefined when the request may go on.
   */
  async take(places: PlaceLimit | undefined, wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    const before = this.#postponed;
    this.#postponed = undefined;
    const refusal = await this.#take(
      [before?.places, places].filter((one) => one !== undefined),
      before ? merged(before.wanted, wanted) : wanted,
    );
    before?.note.end();
    return refusal;
  }

  async #take(places: readonly PlaceLimit[], wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    if (places.length === 0 && wanted.length === 0) return undefined;
    const { store, held, keyId } = this.#options;
    const { ok, refusedBy, full, place, readings } = await store.charge(keyId, wanted.map(itemOf), ...places);
    if (place) {
      // The caller may have left while the store was asked.
      if (this.#released) place.release();
      else this.#taken.push(places.reduce((one, { name }) => held.hold(keyId, name, one), place));
    }
    const found: DimensionReading[] = [];
    for (const [index, { dimension, cost }] of wanted.entries()) {
      const reading = readings[index];
      if (reading) found.push({ dimension, reading });
      if (ok && cost !== undefined) this.#note(dimension, cost);
    }
    if (found.length > 0) this.#readings = merged(this.#readings, found);
    if (ok) return undefined;
    if (refusedBy === "store") return limitsUnknown();
    const taken = places.find(({ name }) => name === full);
    return taken ? placesTaken(taken) : limitExceeded(found);
  }

  /** Notes how many input and output tokens have been charged in advance. */
  expect({ input, output }: { readonly input: number; readonly output: number }): void {
    this.#inputTokens = input;
    this.#outputCharged = output;
  }

  /**
   * Corrects the input charge, as the engine has counted the prompt. A repeated try on another engine calls it again,
   * and the deltas of the try before no longer count.
   */
  started({ inputTokens, cachedInputTokens }: Started): void {
    this.#inputTokens = inputTokens;
    this.#counted = true;
    this.#cachedTokens = cachedInputTokens ?? 0;
    this.#deltas = 0;
    if (!this.#settled) this.#correct("itpm", this.#inputCharge());
  }

  /**
   * Counts one delta of the answer as one token, and charges more output once the deltas go beyond what was charged. It
   * runs on the path of every delta.
   */
  delta(): void {
    this.#deltas += 1;
    if (this.#deltas <= this.#outputCharged || this.#settled) return;
    this.#outputCharged += OUTPUT_STEP_TOKENS;
    this.#correct("otpm", this.#outputCharged);
  }

  /**
   * Ends the charges of a request that is over: tokens as the engine counted them, or without `usage` as far as they
   * were seen. A prompt that no engine has counted is charged by its estimate to the rate of a minute, which flows
   * back, and not to the quota of the day.
   */
  settle(usage: Usage | undefined): void {
    if (this.#settled) return;
    this.#settled = true;
    if (usage) {
      this.#inputTokens = usage.inputTokens;
      this.#counted = true;
      this.#cachedTokens = usage.cachedInputTokens;
    }
    const output = usage?.outputTokens ?? this.#deltas;
    this.#correct("itpm", this.#inputCharge());
    this.#correct("otpm", output);
    const inputTokens = this.#counted ? this.#inputTokens : 0;
    this.#correct("tokensPerDay", inputTokens + output);
    this.#used = { inputTokens, cachedTokens: this.#counted ? this.#cachedTokens : 0, outputTokens: output };
  }

  /** Ends the charges of a request that cost no tokens: it counts as a request only. */
  settleWithoutTokens(): void {
    if (this.#settled) return;
    this.#settled = true;
    for (const measure of ["itpm", "otpm", "tokensPerDay"] as const) this.#correct(measure, 0);
    this.#used = NO_TOKENS;
    this.#chargePostponed();
  }

  /** Ends the charges of a request that is not to count at all. */
  refund(): void {
    if (this.#settled) return;
    this.#settled = true;
    for (const charge of this.#charges) this.#set(charge, 0);
  }

  /** Gives the places of the request back. */
  release(): void {
    this.#released = true;
    this.#postponed?.note.end();
    this.#postponed = undefined;
    for (const place of this.#taken.splice(0)) place.release();
  }

  /** Charges a request that ended before anything was asked for it: nobody waits for it any more. */
  #chargePostponed(): void {
    const postponed = this.#postponed;
    if (!postponed) return;
    this.#postponed = undefined;
    const { store, keyId } = this.#options;
    const items = postponed.wanted.filter(({ cost = 0 }) => cost > 0).map(itemOf);
    void store.charge(keyId, items).then(() => postponed.note.end());
  }

  #note({ name, measure }: Dimension, cost: number): void {
    // The caller left while the store was asked.
    if (this.#settled) this.#options.store.settle(this.#options.keyId, name, -cost);
    else {
      const charge = this.#charges.find((one) => one.name === name);
      if (charge) charge.amount += cost;
      else this.#charges.push({ name, measure, amount: cost });
    }
  }

  #inputCharge(): number {
    return this.#inputTokens - this.#cachedTokens * (1 - this.#options.cachedInputWeight);
  }

  /** Sets what stands charged by `measure` to `amount`. */
  #correct(measure: Measure, amount: number): void {
    for (const charge of this.#charges) if (charge.measure === measure) this.#set(charge, amount);
  }

  #set(charge: Charge, amount: number): void {
    const more = amount - charge.amount;
    if (more === 0) return;
    charge.amount = amount;
    this.#options.store.settle(this.#options.keyId, charge.name, more);
  }
}

function itemOf({ dimension: { name, rule }, cost }: Wanted): ChargeItem {
  return { name, rule, cost };
}

/** Returns what two lists say of limits, in the order of `first`: of a limit that is in both, what `then` says. */
function merged<T extends { readonly dimension: Dimension }>(first: readonly T[], then: readonly T[]): readonly T[] {
  const later = new Map(then.map((one) => [one.dimension.name, one]));
  const known = new Set(first.map(({ dimension }) => dimension.name));
  return [
    ...first.map((one) => later.get(one.dimension.name) ?? one),
    ...then.filter(({ dimension }) => !known.has(dimension.name)),
  ];
}
