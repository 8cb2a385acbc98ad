import type { Started, Usage } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../errors.ts";
import type { Dimension, DimensionReading, PermitLimit } from "./dimension.ts";
import { limitExceeded, limitsUnknown, permitsTaken } from "./limit-exceeded.ts";
import type { ChargeItem, LimitStore, Postponed } from "./limit-store.ts";
import { MEASURES, type Unit } from "./measures.ts";

/** Step, in tokens, of charges for output beyond the expected tokens. */
const OUTPUT_STEP_TOKENS = 256;

/** A limit with the cost of a request; an undefined cost charges no units and is never refused. */
export type Wanted = { readonly dimension: Dimension; readonly cost: number | undefined };

type Later = {
  readonly permits: PermitLimit | undefined;
  readonly wanted: readonly Wanted[];
  readonly note: Postponed;
};

type Charge = { readonly name: string; readonly unit: Unit; amount: number };

/** Final charges: those of a request and of a token count do not depend on the answer. */
type Final = Readonly<Record<Exclude<Unit, "requests" | "counts">, number>>;

/** The tokens that a request has cost its key, as far as engines counted them. */
export type UsedTokens = {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** Tokens of the answer, reasoning included; its deltas if the answer was not completed. */
  readonly outputTokens: number;
};

const NO_TOKENS: UsedTokens = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/**
 * The charges and permits of one request. Charges are corrected when more is known, and finally by one of `settle`,
 * `settleWithoutTokens` and `refund`; `release` returns the permits. Each may be called again and late: only the first
 * final call counts.
 */
export class Grant {
  readonly #store: LimitStore;
  readonly #keyId: string;
  /** The current charges, one per limit. Most keys have few limits or none. */
  readonly #charges: Charge[] = [];
  /** The last known state of the key's limits, general ones first. */
  readings: readonly DimensionReading[] = [];
  readonly #held: string[] = [];
  /** Sent to the store with the next charge, or at the end of the request. */
  #postponed: Later | undefined;
  /** Tokens of the prompt: estimated until an engine has counted them. */
  #inputTokens = 0;
  #counted = false;
  #cachedTokens = 0;
  /** Deltas so far, which count as tokens until the engine reports the usage. */
  #deltas = 0;
  #outputCharged = 0;
  #settled = false;
  /** The final cost of the request; undefined until it has ended, and if it does not count. */
  used: UsedTokens | undefined;
  #released = false;

  constructor(store: LimitStore, keyId: string) {
    this.#store = store;
    this.#keyId = keyId;
  }

  /** Postpones charges if the store would be asked twice and a pass is likely; returns whether it did. */
  postpone(permits: PermitLimit | undefined, wanted: readonly Wanted[]): boolean {
    const [store, keyId] = [this.#store, this.#keyId];
    const note = store.postpone?.(keyId, wanted.map(itemOf), ...(permits ? [permits] : []));
    if (note) this.#postponed = { permits, wanted, note };
    return note !== undefined;
  }

  /**
   * Takes all charges of `wanted`, and a permit if `permits` limits them, or takes none of them, together with all
   * postponed ones. Returns the refusal, or undefined if the request passes.
   */
  async take(permits: PermitLimit | undefined, wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    const before = this.#postponed;
    this.#postponed = undefined;
    const refusal = await this.#take(
      [before?.permits, permits].filter((one) => one !== undefined),
      before ? merged(before.wanted, wanted) : wanted,
    );
    before?.note.end();
    return refusal;
  }

  async #take(permits: readonly PermitLimit[], wanted: readonly Wanted[]): Promise<ApiError | undefined> {
    if (permits.length === 0 && wanted.length === 0) return undefined;
    const [store, keyId] = [this.#store, this.#keyId];
    const { ok, refusedBy, full, readings } = await store.charge(keyId, wanted.map(itemOf), ...permits);
    if (ok) this.#held.push(...permits.map(({ name }) => name));
    // The caller may have left during the request to the store.
    if (this.#released) this.release();
    const found: DimensionReading[] = [];
    for (const [index, { dimension, cost }] of wanted.entries()) {
      const reading = readings[index];
      if (reading) found.push({ dimension, reading });
      if (ok && cost !== undefined) this.#note(dimension, cost);
    }
    if (found.length > 0) this.readings = merged(this.readings, found);
    if (ok) return undefined;
    if (refusedBy === "store") return limitsUnknown();
    const taken = permits.find(({ name }) => name === full);
    return taken ? permitsTaken(taken) : limitExceeded(found);
  }

  expect({ input, output }: { readonly input: number; readonly output: number }): void {
    this.#inputTokens = input;
    this.#outputCharged = output;
  }

  /** Corrects the input charge to the engine's count. After a retry, the earlier attempt's deltas no longer count. */
  started({ inputTokens, cachedInputTokens }: Started): void {
    this.#inputTokens = inputTokens;
    this.#counted = true;
    this.#cachedTokens = cachedInputTokens ?? 0;
    this.#deltas = 0;
    if (!this.#settled) this.#correct({ input: this.#inputCharge() });
  }

  /** Counts one delta as one token, and charges more output once the deltas exceed the charge. */
  delta(): void {
    this.#deltas += 1;
    if (this.#deltas <= this.#outputCharged || this.#settled) return;
    this.#outputCharged += OUTPUT_STEP_TOKENS;
    this.#correct({ output: this.#outputCharged });
  }

  /**
   * Settles the charges of a request that has ended: tokens as the engine counted them, or without `usage` the deltas
   * so far. A prompt that no engine has counted is charged by its estimate to the rate per minute, which refills, and
   * not to the daily quota.
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
    const inputTokens = this.#counted ? this.#inputTokens : 0;
    this.#correct({ input: this.#inputCharge(), output, tokens: inputTokens + output } satisfies Final);
    this.used = { inputTokens, cachedTokens: this.#counted ? this.#cachedTokens : 0, outputTokens: output };
  }

  settleWithoutTokens(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#correct({ input: 0, output: 0, tokens: 0 } satisfies Final);
    this.used = NO_TOKENS;
    this.#chargePostponed();
  }

  refund(): void {
    if (this.#settled) return;
    this.#settled = true;
    for (const charge of this.#charges) this.#set(charge, 0);
  }

  release(): void {
    this.#released = true;
    this.#postponed?.note.end();
    this.#postponed = undefined;
    if (this.#held.length > 0) this.#store.release(this.#keyId, this.#held.splice(0));
  }

  /** Charges a request that ended before its postponed charges were sent; no caller waits for the result. */
  #chargePostponed(): void {
    const postponed = this.#postponed;
    if (!postponed) return;
    this.#postponed = undefined;
    const [store, keyId] = [this.#store, this.#keyId];
    const items = postponed.wanted.filter(({ cost = 0 }) => cost > 0).map(itemOf);
    void store.charge(keyId, items).then(() => postponed.note.end());
  }

  #note({ name, measure }: Dimension, cost: number): void {
    // The caller left during the request to the store.
    if (this.#settled) this.#store.settle(this.#keyId, name, -cost);
    else {
      const charge = this.#charges.find((one) => one.name === name);
      if (charge) charge.amount += cost;
      else this.#charges.push({ name, unit: MEASURES[measure].unit, amount: cost });
    }
  }

  #inputCharge(): number {
    return this.#inputTokens - this.#cachedTokens;
  }

  #correct(amounts: Readonly<Partial<Record<Unit, number>>>): void {
    for (const charge of this.#charges) this.#set(charge, amounts[charge.unit] ?? charge.amount);
  }

  #set(charge: Charge, amount: number): void {
    const more = amount - charge.amount;
    if (more === 0) return;
    charge.amount = amount;
    this.#store.settle(this.#keyId, charge.name, more);
  }
}

function itemOf({ dimension: { name, rule }, cost }: Wanted): ChargeItem {
  return { name, rule, cost };
}

/** Merges two lists of limits in the order of `first`; for a limit in both, the entry of `then` counts. */
function merged<T extends { readonly dimension: Dimension }>(first: readonly T[], then: readonly T[]): readonly T[] {
  const later = new Map(then.map((one) => [one.dimension.name, one]));
  const known = new Set(first.map(({ dimension }) => dimension.name));
  return [
    ...first.map((one) => later.get(one.dimension.name) ?? one),
    ...then.filter(({ dimension }) => !known.has(dimension.name)),
  ];
}
