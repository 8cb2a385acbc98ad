/** Something that waits for its turn. */
export type TurnItem = {
  /** The one that the item belongs to: turns are shared between keys. */
  readonly key: string;
  /** The cost of serving the item, such as tokens; above 0. */
  readonly cost: number;
  /**
   * The share of the item's key beside others; above 0, by default 1. Of several items of a key the newest one's
   * counts.
   */
  readonly weight?: number;
  /** The item's place among those of its key: a higher rank is served earlier; by default 0. */
  readonly rank?: number;
};

/** An item that was taken out to be served. */
export type Taken<Item> = {
  /** The item that was taken. */
  readonly item: Item;
  /**
   * Undoes the taking: the item is the next one of its key again, which has spent nothing for it. Of several that were
   * taken, the newest has to be put back first; those that are served may stay out.
   */
  putBack(): void;
};

/** The items of one key. */
type Flow<Item> = {
  /** The items that wait: those of a higher rank first, then as they came. */
  readonly items: Item[];
  weight: number;
  /** The earnings of every key, per unit of weight, when this one had nothing left of its own. */
  brokeAt: number;
  /** The number of the key's last turn; 0 for a key that has had none since it came. */
  lastTurn: number;
  /** The number of the key in the order of arrival, to decide between equals. */
  readonly arrival: number;
};

/** The numbers that a taking changed, as they were. */
type Before = { readonly brokeAt: number; readonly lastTurn: number; readonly earned: number };

/**
 * Takes turns between keys by deficit round robin (Shreedhar and Varghese, 1996) with a quantum that goes to zero: all
 * keys that wait earn at the pace of their weights, and the one that first has what its next item costs is served. So
 * cost is shared fairly, not the number of items. Earnings are counted from the start, which makes rounds in which
 * nobody is served free of work.
 */
export class FairTurns<Item extends TurnItem> {
  readonly #flows = new Map<string, Flow<Item>>();
  #size = 0;
  #earned = 0;
  #turns = 0;
  #arrivals = 0;

  /** The number of items that wait, of all keys. */
  get size(): number {
    return this.#size;
  }

  /** Returns the keys that have items. */
  keys(): readonly string[] {
    return [...this.#flows.keys()];
  }

  /** Returns the items of one key, of a higher rank first, then in the order of arrival. */
  itemsOf(key: string): readonly Item[] {
    return this.#flows.get(key)?.items ?? [];
  }

  /** Returns the items of all keys, in no particular order. */
  items(): readonly Item[] {
    return [...this.#flows.values()].flatMap(({ items }) => items);
  }

  /** Returns the items of all keys, in the order in which they are served if nobody comes or leaves. */
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

  /** Adds an item. A key that had none starts without earnings. */
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
   * Returns the item that is next and leaves it where it is; undefined when nobody waits. The keys in `aside`, by default
   * none, are passed over.
   */
  peek(aside?: ReadonlySet<string>): Item | undefined {
    const flow = this.#soonest(aside);
    return flow?.items[0];
  }

  /** Takes out the item that `peek` returns, and has its key pay for it; undefined when there is none. */
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
    // Whoever was served since keeps its turn, and has paid for it.
    if (flow.lastTurn === turn) Object.assign(flow, { brokeAt: before.brokeAt, lastTurn: before.lastTurn });
    else flow.brokeAt -= item.cost / flow.weight;
    if (this.#turns !== turn) return;
    this.#turns -= 1;
    this.#earned = before.earned;
  }

  /** Takes out an item that leaves without being served. Returns false when it is not here. */
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
    // What was earned for an item that has left pays for one other at most: nobody saves up by giving up.
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
 * Orders keys whose items are due at once: the one that has waited longest for a turn comes first, then the one that
 * wants least, then the one that came first.
 */
function precedence<Item>(one: Flow<Item>, other: Flow<Item>): number {
  return one.lastTurn - other.lastTurn || one.items.length - other.items.length || one.arrival - other.arrival;
}
