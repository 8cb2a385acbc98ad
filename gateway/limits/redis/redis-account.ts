import type { ChargeItem, LimitRule, PlaceItem, Postponed, Reading } from "../limit-store.ts";

/** A question about a key whose answer is missing, so that the store may have applied it or not. */
export type OpenQuestion = {
  /** Called once the outcome of a question without an answer is known. It corrects the amounts owed to the store. */
  settleUp(taken: boolean): void;
  /** Called when the answer is no longer awaited: this gateway decides alone. */
  giveUp(): void;
};

/**
 * One gateway's view of the counts of one key in the store: the updates that it owes the store, and its open questions.
 */
export class RedisAccount {
  readonly keyId: string;
  /** Newest rule of each count that this gateway has charged, by name. */
  readonly rules = new Map<string, LimitRule>();
  /** Places held by requests of this gateway, by name. */
  readonly held = new Map<string, number>();
  /** Questions without an answer, by number, oldest first. */
  readonly open = new Map<number, OpenQuestion>();
  /** Number of the outage since which the store has all counts of this gateway. */
  inStepSince = -1;
  /** The running synchronization with the store; undefined if there is none. */
  comingIntoStep: Promise<boolean> | undefined;
  /** Amounts owed to the store, by name of the count. */
  #amounts = new Map<string, number>();
  /** Changes of places owed to the store, by name. */
  #places = new Map<string, number>();
  /** State of each count in the store's last reply, by name, with its time in monotonic milliseconds. */
  readonly #known = new Map<string, Reading & { readonly atMs: number }>();
  /** Postponed costs of requests that passed, by name of the count. */
  readonly #postponedCosts = new Map<string, number>();
  /** Postponed places, by name. */
  readonly #postponedPlaces = new Map<string, number>();
  #last = 0;

  constructor(keyId: string) {
    this.keyId = keyId;
  }

  /** Whether this gateway owes the store an update. */
  get owes(): boolean {
    return this.#amounts.size > 0 || this.#places.size > 0;
  }

  /** Whether the store has no uncertain counts of this gateway, and is owed no update. */
  get isClear(): boolean {
    return !this.owes && this.open.size === 0 && this.held.size === 0;
  }

  /** Number of the newest question. */
  get last(): number {
    return this.#last;
  }

  /** Number of the oldest question with an unknown outcome, or of the next question if there is none. */
  get ack(): number {
    return this.open.keys().next().value ?? this.#last + 1;
  }

  /** Assigns a number to a question. */
  ask(question: OpenQuestion): number {
    this.#last += 1;
    this.open.set(this.#last, question);
    return this.#last;
  }

  /** Records the state of counts from a reply of the store at `nowMs`, in monotonic milliseconds. */
  learn(items: readonly ChargeItem[], readings: readonly Reading[], nowMs: number): void {
    for (const [at, { name }] of items.entries()) {
      const reading = readings[at];
      if (reading) this.#known.set(name, { ...reading, atMs: nowMs });
    }
  }

  /**
   * Notes a postponed charge; undefined if a refusal is likely, according to the last reply of the store and the other
   * postponed charges.
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

  /** Adds to the amount owed on a count; no effect on a count that this gateway has never charged. */
  owe(name: string, amount: number): void {
    if (!this.rules.has(name) || !Number.isFinite(amount)) return;
    add(this.#amounts, name, amount);
    const known = this.#known.get(name);
    if (known) this.#known.set(name, { ...known, remaining: known.remaining - amount });
  }

  /** Records that a request holds a place, and whether the store has it already. */
  hold(name: string, told: boolean): void {
    add(this.held, name, 1);
    if (!told) add(this.#places, name, 1);
  }

  /** Records that a place was released. */
  free(name: string): void {
    add(this.held, name, -1);
    add(this.#places, name, -1);
  }

  /** Removes and returns the amounts owed to the store. */
  takeAmounts(): { readonly name: string; readonly amount: number; readonly rule: LimitRule }[] {
    const amounts = [...this.#amounts].flatMap(([name, amount]) => {
      const rule = this.rules.get(name);
      return rule ? [{ name, amount, rule }] : [];
    });
    this.#amounts = new Map();
    return amounts;
  }

  /** Removes and returns the changes of places owed to the store. */
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
