import type { ChargeItem, LimitRule, PermitItem, Postponed } from "../limit-store.ts";

export type Amounts = ReadonlyMap<string, number>;

/** A question about a key that the store may have applied or not. */
export type OpenQuestion = {
  /** Units that the store takes if the question arrives. */
  readonly charged: Amounts;
  /** Units that have to be taken in the end; undefined while an answer is awaited. */
  due: Amounts | undefined;
};

export type AmountPart = {
  readonly name: string;
  readonly rule: LimitRule;
  readonly due: number;
  readonly charged: number;
};

/** One gateway's view of the counts of one key in the store: what it owes the store, and its open questions. */
export class RedisAccount {
  readonly keyId: string;
  /** Newest rule of each count that this gateway has charged, by name. */
  readonly rules = new Map<string, LimitRule>();
  readonly held = new Map<string, number>();
  /** Questions without an answer, by number, oldest first. */
  readonly open = new Map<number, OpenQuestion>();
  /** Number of the outage since which the store has all counts of this gateway. */
  inStepSince = -1;
  comingIntoStep: Promise<boolean> | undefined;
  /** Amounts owed to the store, by name of the count. */
  #amounts = new Map<string, number>();
  /** Changes of permits owed to the store, by name. */
  #permits = new Map<string, number>();
  readonly #postponedCosts = new Map<string, number>();
  readonly #postponedPermits = new Map<string, number>();
  #last = 0;

  constructor(keyId: string) {
    this.keyId = keyId;
  }

  get owes(): boolean {
    return this.#amounts.size > 0 || this.#permits.size > 0;
  }

  /** Whether the store has no uncertain counts of this gateway, and is owed no update. */
  get isClear(): boolean {
    return !this.owes && this.open.size === 0 && this.held.size === 0;
  }

  /** Number of the newest question before which all outcomes are known. */
  get done(): number {
    return (this.open.keys().next().value ?? this.#last + 1) - 1;
  }

  ask(question: OpenQuestion): number {
    this.#last += 1;
    this.open.set(this.#last, question);
    return this.#last;
  }

  askToSettle(): number {
    const question = this.ask({ charged: new Map(), due: this.#amounts });
    this.#amounts = new Map();
    return question;
  }

  partsOf({ charged, due = charged }: OpenQuestion): AmountPart[] {
    return [...new Set([...charged.keys(), ...due.keys()])].flatMap((name) => {
      const rule = this.rules.get(name);
      return rule ? [{ name, rule, due: due.get(name) ?? 0, charged: charged.get(name) ?? 0 }] : [];
    });
  }

  /** Undefined if what seems to remain of each item, less the other postponed charges, makes a refusal likely. */
  postpone(
    items: readonly ChargeItem[],
    permits: readonly PermitItem[],
    remaining: readonly number[],
  ): Postponed | undefined {
    const taken = (name: string) => (this.held.get(name) ?? 0) + (this.#postponedPermits.get(name) ?? 0);
    if (permits.some(({ name, limit }) => taken(name) >= limit)) return undefined;
    if (!items.every((item, at) => this.#isLikely(item, remaining[at] ?? 0))) return undefined;
    const note = (sign: 1 | -1) => {
      for (const { name, cost = 0 } of items) add(this.#postponedCosts, name, sign * cost);
      for (const { name } of permits) add(this.#postponedPermits, name, sign);
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

  #isLikely({ name, rule, cost }: ChargeItem, remaining: number): boolean {
    if (cost === undefined) return true;
    if (rule.kind === "day") return remaining > 0;
    return remaining - (this.#postponedCosts.get(name) ?? 0) >= Math.min(cost, rule.capacity);
  }

  /** Adds to the amount owed on a count; no effect on a count that this gateway has never charged. */
  owe(name: string, amount: number): void {
    if (this.rules.has(name)) add(this.#amounts, name, amount);
  }

  /** Records that requests hold these permits; `owed` if the store does not have them. */
  hold(permits: readonly PermitItem[], owed: boolean): void {
    for (const { name } of permits) {
      add(this.held, name, 1);
      if (owed) add(this.#permits, name, 1);
    }
  }

  free(names: readonly string[]): void {
    for (const name of names) {
      add(this.held, name, -1);
      add(this.#permits, name, -1);
    }
  }

  /** Removes the changes of permits owed to the store; returns them, or with `anew` all held permits. */
  takePermits(anew: boolean): { readonly name: string; readonly number: number }[] {
    const permits = [...(anew ? this.held : this.#permits)].map(([name, number]) => ({ name, number }));
    this.#permits = new Map();
    return permits;
  }
}

function add(sums: Map<string, number>, name: string, by: number): void {
  const sum = (sums.get(name) ?? 0) + by;
  if (sum === 0) sums.delete(name);
  else sums.set(name, sum);
}
