import type { Started, Usage } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../errors.ts";
import type { Dimension, DimensionReading, Measure, PlaceLimit } from "./dimension.ts";
import type { HeldPlaces } from "./held-places.ts";
import { limitExceeded, placesTaken } from "./limit-exceeded.ts";
import type { LimitStore, Place } from "./limit-store.ts";

/** In what steps output is charged that goes beyond what was expected, in tokens. */
const OUTPUT_STEP_TOKENS = 256;

/** A limit and what a request is to be charged on it; undefined: nothing, and its state does not matter either. */
export type Wanted = { readonly dimension: Dimension; readonly cost: number | undefined };

export type GrantOptions = {
  readonly store: LimitStore;
  readonly held: HeldPlaces;
  readonly keyId: string;
  /** What an input token counts that was read from the cache; 0 to 1. */
  readonly cachedInputWeight: number;
};

/**
 * What one request has been charged, and the places it holds. Charges are put right as more is known, and once the
 * request is over by one of `settle` and `refund`; `release` gives the places back. Each may be called again, and late:
 * only the first end counts.
 */
export class Grant {
  readonly #options: GrantOptions;
  /** By name of the dimension. */
  readonly #charged = new Map<string, { readonly measure: Measure; readonly amount: number }>();
  readonly #readings = new Map<string, DimensionReading>();
  readonly #taken: Place[] = [];
  #inputTokens = 0;
  #cachedTokens = 0;
  /** Deltas stand for tokens until the engine's count comes with the end. */
  #deltas = 0;
  #outputCharged = 0;
  #settled = false;
  #released = false;

  constructor(options: GrantOptions) {
    this.#options = options;
  }

  /** How the limits stood when they were last asked, the key's own first. */
  get readings(): readonly DimensionReading[] {
    return [...this.#readings.values()];
  }

  /** Takes a place where there is a limit on them, then all charges or none. Returns the refusal. */
  async take(places: PlaceLimit | undefined, wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    const { store, held, keyId } = this.#options;
    if (!places) return this.#charge(wanted);
    const place = await store.takePlace(keyId, places.name, places.limit);
    if (!place) {
      // The refused learn, too, how their limits stand.
      await this.#charge(wanted.map(({ dimension }) => ({ dimension, cost: undefined })));
      return placesTaken(places);
    }
    // The caller may have left while the store was asked.
    if (this.#released) place.release();
    else this.#taken.push(held.hold(keyId, places.name, place));
    return this.#charge(wanted);
  }

  /** Says what the tokens were taken to be that have been charged. */
  expect({ input, output }: { readonly input: number; readonly output: number }): void {
    this.#inputTokens = input;
    this.#outputCharged = output;
  }

  /** The engine has counted the prompt. A try may be repeated on another engine: then what was written before is void. */
  started({ inputTokens, cachedInputTokens }: Started): void {
    this.#inputTokens = inputTokens;
    this.#cachedTokens = cachedInputTokens ?? 0;
    this.#deltas = 0;
    if (!this.#settled) this.#correct("itpm", this.#inputCharge());
  }

  /** A piece of the answer has come. On the path of every delta. */
  delta(): void {
    this.#deltas += 1;
    if (this.#deltas <= this.#outputCharged || this.#settled) return;
    this.#outputCharged += OUTPUT_STEP_TOKENS;
    this.#correct("otpm", this.#outputCharged);
  }

  /** The request is over: tokens are charged as the engine counted them, or without `usage` as far as they were seen. */
  settle(usage: Usage | undefined): void {
    if (this.#settled) return;
    this.#settled = true;
    if (usage) {
      this.#inputTokens = usage.inputTokens;
      this.#cachedTokens = usage.cachedInputTokens;
    }
    const output = usage?.outputTokens ?? this.#deltas;
    this.#correct("itpm", this.#inputCharge());
    this.#correct("otpm", output);
    this.#correct("tokensPerDay", this.#inputTokens + output);
  }

  /** The request is over and cost no tokens; it counts as a request. */
  settleWithoutTokens(): void {
    if (this.#settled) return;
    this.#settled = true;
    for (const measure of ["itpm", "otpm", "tokensPerDay"] as const) this.#correct(measure, 0);
  }

  /** The request is over and is not counted at all. */
  refund(): void {
    if (this.#settled) return;
    this.#settled = true;
    for (const [name, charged] of this.#charged) this.#set(name, charged, 0);
  }

  /** Gives the places back. */
  release(): void {
    this.#released = true;
    for (const place of this.#taken.splice(0)) place.release();
  }

  async #charge(wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    if (wanted.length === 0) return undefined;
    const { store, keyId } = this.#options;
    const items = wanted.map(({ dimension, cost }) => ({ name: dimension.name, rule: dimension.rule, cost }));
    const { ok, readings } = await store.charge(keyId, items);
    const found: DimensionReading[] = [];
    for (const [index, { dimension, cost }] of wanted.entries()) {
      const reading = readings[index];
      if (reading) found.push({ dimension, reading });
      if (ok && cost !== undefined) this.#note(dimension, cost);
    }
    for (const one of found) this.#readings.set(one.dimension.name, one);
    return ok ? undefined : limitExceeded(found);
  }

  #note({ name, measure }: Dimension, cost: number): void {
    // The caller left while the store was asked.
    if (this.#settled) this.#options.store.settle(this.#options.keyId, name, -cost);
    else this.#charged.set(name, { measure, amount: (this.#charged.get(name)?.amount ?? 0) + cost });
  }

  #inputCharge(): number {
    return this.#inputTokens - this.#cachedTokens * (1 - this.#options.cachedInputWeight);
  }

  /** What stands charged by `measure` becomes `amount`. */
  #correct(measure: Measure, amount: number): void {
    for (const [name, charged] of this.#charged) if (charged.measure === measure) this.#set(name, charged, amount);
  }

  #set(
    name: string,
    { measure, amount: before }: { readonly measure: Measure; readonly amount: number },
    amount: number,
  ) {
    if (amount === before) return;
    this.#charged.set(name, { measure, amount });
    this.#options.store.settle(this.#options.keyId, name, amount - before);
  }
}
