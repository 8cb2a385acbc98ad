/** An item that waits for its turn. */
export type TurnItem = {
  /** Turns are shared between keys. */
  readonly key: string;
  /** Cost of serving the item, such as tokens; above 0. */
  readonly cost: number;
  /** Share of the item's key relative to others; above 0, by default 1. The newest item of a key decides. */
  readonly weight?: number;
  /** Order within a key: a higher rank is served earlier; by default 0. */
  readonly rank?: number;
};

/** An item that was removed to be served. */
export type Taken<Item> = {
  readonly item: Item;
  /**
   * Undoes the removal: the item is the next one of its key again, which is not charged. Several items must be put back
   * in reverse order; served ones may stay out.
   */
  putBack(): void;
};

/** The items of one key. */
type Flow<Item> = {
  /** Waiting items: higher rank first, then in order of arrival. */
  readonly items: Item[];
  weight: number;
  /** Earnings of every key, per unit of weight, when this one had none left. */
  brokeAt: number;
  /** Number of the key's last turn; 0 if it has had none since it was added. */
  lastTurn: number;
  /** Arrival number of the key, which breaks ties. */
  readonly arrival: number;
};

/** The values that a removal changed. */
type Before = { readonly brokeAt: number; readonly lastTurn: number; readonly earned: number };

/**
 * Deficit round robin between keys (Shreedhar and Varghese, 1996) with a quantum that approaches zero: all waiting keys
 * earn in proportion to their weights, and the first one that can pay for its next item is served. So cost is shared
 * fairly, not the number of items. Earnings are computed from a common total, so that rounds without service cost no
 * work.
 */
export class FairTurns<Item extends TurnItem> {
  readonly #flows = new Map<string, Flow<Item>>();
  #size = 0;
  #earned = 0;
  #turns = 0;
  #arrivals = 0;

  /** Waiting items of all keys. */
  get size(): number {
    return this.#size;
  }

  /** Returns the keys with items. */
  keys(): readonly string[] {
    return [...this.#flows.keys()];
  }

  /** Returns the items of one key, higher rank first, then in order of arrival. */
  itemsOf(key: string): readonly Item[] {
    return this.#flows.get(key)?.items ?? [];
  }

  /** Returns the items of all keys, in no particular order. */
  items(): readonly Item[] {
    return [...this.#flows.values()].flatMap(({ items }) => items);
  }

  /** Returns the items of all keys in serving order, if none is added or removed. */
  order(): readonly Item[] {
    const all = [...this.#flows.values()].flatMap((flow) => {
      let due = flow.brokeAt;
      return flow.items.map((item) => {
        due += item.cost / flow.weight;
        return { item, due, flow };
      });
    });
    return all.sort((a, b) => a.due - b.due || precedence(a.flow, b.flow)).map(({ item }) => item);
  }

  /** Adds an item. A key without items starts without earnings. */
  push(item: Item): void {
    const { key, weight = 1, rank = 0 } = item;
    let flow = this.#flows.get(key);
    if (!flow) {
      this.#arrivals += 1;
      flow = { items: [], weight, brokeAt: this.#earned, lastTurn: 0, arrival: this.#arrivals };
      this.#flows.set(key, flow);
    }
    const after = flow.items.findLastIndex((other) => (other.rank ?? 0) >= rank);
    flow.items.splice(after + 1, 0, item);
    flow.weight = weight;
    this.#size += 1;
  }

  /**
   * Returns the next item without removing it; undefined if none waits. The keys in `aside` (default: none) are
   * skipped.
   */
  peek(aside?: ReadonlySet<string>): Item | undefined {
    const flow = this.#soonest(aside);
    return flow?.items[0];
  }

  /** Removes the item that `peek` returns and charges its key; undefined if there is none. */
  take(aside?: ReadonlySet<string>): Taken<Item> | undefined {
    const flow = this.#soonest(aside);
    const item = flow?.items[0];
    if (!flow || !item) return undefined;
    const before = { brokeAt: flow.brokeAt, lastTurn: flow.lastTurn, earned: this.#earned };
    flow.brokeAt += item.cost / flow.weight;
    this.#earned = Math.max(this.#earned, flow.brokeAt);
    this.#turns += 1;
    const turn = this.#turns;
    flow.lastTurn = turn;
    this.#takeOut(flow, item);
    return { item, putBack: () => this.#putBack(flow, item, before, turn) };
  }

  #putBack(flow: Flow<Item>, item: Item, before: Before, turn: number): void {
    this.#flows.set(item.key, flow);
    flow.items.unshift(item);
    this.#size += 1;
    // A key that was served since keeps its turn and its charge.
    if (flow.lastTurn === turn) Object.assign(flow, { brokeAt: before.brokeAt, lastTurn: before.lastTurn });
    else flow.brokeAt -= item.cost / flow.weight;
    if (this.#turns !== turn) return;
    this.#turns -= 1;
    this.#earned = before.earned;
  }

  /** Removes an item that leaves without being served. Returns false if it is not here. */
  remove(item: Item): boolean {
    const flow = this.#flows.get(item.key);
    if (!flow?.items.includes(item)) return false;
    this.#takeOut(flow, item);
    return true;
  }

  #takeOut(flow: Flow<Item>, item: Item): void {
    flow.items.splice(flow.items.indexOf(item), 1);
    this.#size -= 1;
    const [head] = flow.items;
    if (!head) this.#flows.delete(item.key);
    // The earnings for a removed item pay for one other item at most: giving up saves no credit.
    else flow.brokeAt = Math.max(flow.brokeAt, this.#earned - head.cost / flow.weight);
  }

  #soonest(aside?: ReadonlySet<string>): Flow<Item> | undefined {
    let best: Flow<Item> | undefined;
    let bestDue = Number.POSITIVE_INFINITY;
    for (const [key, flow] of this.#flows) {
      if (aside?.has(key)) continue;
      const due = flow.brokeAt + (flow.items[0]?.cost ?? Number.POSITIVE_INFINITY) / flow.weight;
      if (best && (due > bestDue || (due === bestDue && precedence(flow, best) > 0))) continue;
      [best, bestDue] = [flow, due];
    }
    return best;
  }
}

/**
 * Orders keys whose items are due at once: the key without a turn for the longest time first, then the one with the
 * cheapest item, then the one that arrived first.
 */
function precedence<Item>(one: Flow<Item>, other: Flow<Item>): number {
  return one.lastTurn - other.lastTurn || one.items.length - other.items.length || one.arrival - other.arrival;
}
