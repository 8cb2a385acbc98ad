import { type FairItem, TenantTurns } from "./tenant-turns.ts";

/** Most urgent first: a priority above 0, 0, and below 0. */
const CLASSES = ["high", "default", "low"] as const;
type PriorityClass = (typeof CLASSES)[number];

/** Share of what more urgent classes get that a class earns while it waits, so that none starves. */
const EARNS: Readonly<Record<PriorityClass, number>> = { high: 0, default: 0.15, low: 0.05 };

/**
 * Who of those that wait is next: the more urgent class, and within a class the tenants by turns. A class that waits while
 * others are served earns a part of what they cost, and goes first when that pays for its next item.
 */
export class FairQueue<Item extends FairItem> {
  readonly #turns: Readonly<Record<PriorityClass, TenantTurns<Item>>> = {
    high: new TenantTurns(),
    default: new TenantTurns(),
    low: new TenantTurns(),
  };
  readonly #earned: Record<PriorityClass, number> = { high: 0, default: 0, low: 0 };

  get length(): number {
    return this.count();
  }

  /** How many wait, of one tenant or of all. */
  count(tenant?: string): number {
    return CLASSES.reduce((sum, name) => sum + this.#turns[name].count(tenant), 0);
  }

  push(item: Item): void {
    this.#turns[classOf(item)].push(item);
  }

  next(): Item | undefined {
    for (const name of CLASSES.toReversed()) {
      const item = this.#turns[name].next();
      if (item && EARNS[name] > 0 && this.#earned[name] >= item.cost) return item;
    }
    for (const name of CLASSES) {
      const item = this.#turns[name].next();
      if (item) return item;
    }
    return undefined;
  }

  /** Takes out what `next` gave: it is served. */
  serve(item: Item): void {
    const own = classOf(item);
    this.#turns[own].serve(item);
    this.#earned[own] = Math.max(0, this.#earned[own] - item.cost);
    for (const name of CLASSES.slice(CLASSES.indexOf(own) + 1)) {
      const cost = this.#turns[name].next()?.cost ?? 0;
      this.#earned[name] = Math.min(cost, this.#earned[name]) + EARNS[name] * item.cost;
    }
    this.#forget(own);
  }

  /** Takes out an item that leaves without being served. False when it was not waiting. */
  remove(item: Item): boolean {
    const name = classOf(item);
    const wasHere = this.#turns[name].remove(item);
    this.#forget(name);
    return wasHere;
  }

  /**
   * Who gives way to one more of a tenant when there is no room: the last item of the tenant that has the most, if that
   * leaves it with no fewer than the newcomer's. So a flood drowns only itself.
   */
  givesWayTo(tenant: string): Item | undefined {
    let most = this.count(tenant) + 1;
    let victim: Item | undefined;
    for (const other of new Set(CLASSES.flatMap((name) => this.#turns[name].tenants()))) {
      const count = this.count(other);
      if (count <= most) continue;
      most = count;
      victim = CLASSES.toReversed().flatMap((name) => this.#turns[name].last(other) ?? [])[0];
    }
    return victim;
  }

  /** All that wait, about in the order in which they will be served. */
  order(): readonly Item[] {
    return CLASSES.flatMap((name) => this.#turns[name].order());
  }

  #forget(name: PriorityClass): void {
    if (this.#turns[name].count() === 0) this.#earned[name] = 0;
  }
}

function classOf({ priority }: FairItem): PriorityClass {
  if (priority === 0) return "default";
  return priority > 0 ? "high" : "low";
}
