import type { ChargeItem, LimitRule, PlaceItem, Postponed, Reading } from "../limit-store.ts";

/** A question about a key that the store may or may not have taken, as its answer is still out. */
export type OpenQuestion = {
  /**
   * Called once it is known whether the store has taken the question although its answer never came. It puts right what
   * the store is told.
   */
  settleUp(taken: boolean): void;
  /** Called when the answer is no longer waited for: whoever asked is answered by this gateway alone. */
  giveUp(): void;
};

/** What one gateway knows of the counts of one key in the store: what the store is yet to be told, and what it was asked. */
export class RedisAccount {
  /** The public id of the key. */
  readonly keyId: string;
  /** The newest rule of each count that this gateway has charged, by name. */
  readonly rules = new Map<string, LimitRule>();
  /** The places that requests of this gateway hold, by name. */
  readonly held = new Map<string, number>();
  /** The questions without an answer, by their number, oldest first. */
  readonly open = new Map<number, OpenQuestion>();
  /** The number of the outage since which the store is known to have all that this gateway counted. */
  inStepSince = -1;
  /** The running attempt to bring the store into step; undefined while there is none. */
  comingIntoStep: Promise<boolean> | undefined;
  /** The amounts that the store is yet to be told, by name of the count. */
  #amounts = new Map<string, number>();
  /** The changes of places that the store is yet to be told, by name. */
  #places = new Map<string, number>();
  /** How each count stood when the store last told, by name, and the moment of that in monotonic milliseconds. */
  readonly #known = new Map<string, Reading & { readonly atMs: number }>();
  /** What will be asked for by requests that were let on without asking, by name of the count. */
  readonly #postponedCosts = new Map<string, number>();
  /** The same of places. */
  readonly #postponedPlaces = new Map<string, number>();
  #last = 0;

  constructor(keyId: string) {
    this.keyId = keyId;
  }

  /** Whether there is anything that the store is yet to be told. */
  get owes(): boolean {
    return this.#amounts.size > 0 || this.#places.size > 0;
  }

  /** Whether the store has nothing of this gateway's that could be wrong, and is owed nothing. */
  get isClear(): boolean {
    return !this.owes && this.open.size === 0 && this.held.size === 0;
  }

  /** The number of the newest question. */
  get last(): number {
    return this.#last;
  }

  /** The number of the oldest question whose outcome is not known, or of the next one where all are. */
  get ack(): number {
    return this.open.keys().next().value ?? this.#last + 1;
  }

  /** Gives a question its number. */
  ask(question: OpenQuestion): number {
    this.#last += 1;
    this.open.set(this.#last, question);
    return this.#last;
  }

  /** Notes how counts stand, as the store told at `nowMs` in monotonic milliseconds. */
  learn(items: readonly ChargeItem[], readings: readonly Reading[], nowMs: number): void {
    for (const [at, { name }] of items.entries()) {
      const reading = readings[at];
      if (reading) this.#known.set(name, { ...reading, atMs: nowMs });
    }
  }

  /**
   * Notes what will be asked for later; undefined where that is likely to be refused, by what the store last told and
   * by what else this gateway will ask for.
   */
  postpone(items: readonly ChargeItem[], places: readonly PlaceItem[], nowMs: number): Postponed | undefined {
    const taken = (name: string) => (this.held.get(name) ?? 0) + (this.#postponedPlaces.get(name) ?? 0);
    if (places.some(({ name, limit }) => taken(name) >= limit)) return undefined;
    if (!items.every((item) => this.#isLikely(item, nowMs))) return undefined;
    const note = (sign: 1 | -1) => {
      for (const { name, cost = 0 } of items) add(this.#postponedCosts, name, sign * cost);
      for (const { name } of places) add(this.#postponedPlaces, name, sign);
    };
    note(1);
    let open = true;
    return {
      end() {
        if (open) note(-1);
        open = false;
      },
    };
  }

  #isLikely({ name, rule, cost }: ChargeItem, nowMs: number): boolean {
    if (cost === undefined) return true;
    const known = this.#known.get(name);
    const ageMs = known ? nowMs - known.atMs : 0;
    if (rule.kind === "day") return !known || known.remaining > 0 || ageMs >= known.resetMs;
    const inflow = (ageMs * rule.perMinute) / 60_000;
    const level = known ? Math.min(rule.capacity, known.remaining + inflow) : rule.capacity;
    return level - (this.#postponedCosts.get(name) ?? 0) >= Math.min(cost, rule.capacity);
  }

  /** Adds to what a count is to be charged; nothing for a count that this gateway has never charged. */
  owe(name: string, amount: number): void {
    if (!this.rules.has(name) || !Number.isFinite(amount)) return;
    add(this.#amounts, name, amount);
    const known = this.#known.get(name);
    if (known) this.#known.set(name, { ...known, remaining: known.remaining - amount });
  }

  /** Notes that a request holds a place; `told` says whether the store knows that. */
  hold(name: string, told: boolean): void {
    add(this.held, name, 1);
    if (!told) add(this.#places, name, 1);
  }

  /** Notes that a place is free again. */
  free(name: string): void {
    add(this.held, name, -1);
    add(this.#places, name, -1);
  }

  /** Takes out the amounts that the store is yet to be told. */
  takeAmounts(): { readonly name: string; readonly amount: number; readonly rule: LimitRule }[] {
    const amounts = [...this.#amounts].flatMap(([name, amount]) => {
      const rule = this.rules.get(name);
      return rule ? [{ name, amount, rule }] : [];
    });
    this.#amounts = new Map();
    return amounts;
  }

  /** Takes out the changes of places that the store is yet to be told. */
  takePlaces(): { readonly name: string; readonly number: number }[] {
    const places = [...this.#places].map(([name, number]) => ({ name, number }));
    this.#places = new Map();
    return places;
  }
}

function add(sums: Map<string, number>, name: string, by: number): void {
  const sum = (sums.get(name) ?? 0) + by;
  if (sum === 0) sums.delete(name);
  else sums.set(name, sum);
}
