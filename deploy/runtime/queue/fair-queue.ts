/** Priority classes: those of Envoy's routing priorities, and one below them. */
export type PriorityClass = "high" | "default" | "low";

/** Most urgent first. */
export const PRIORITY_CLASSES: readonly PriorityClass[] = ["high", "default", "low"];

/** The share of the work of each class while all of them have work; what a class leaves, the others divide. */
const CLASS_SHARES: Readonly<Record<PriorityClass, number>> = { high: 80, default: 15, low: 5 };

/** An item that waits to be served. */
export type FairItem = {
  /** The items of one key, such as a tenant, share one part of the service. */
  readonly key: string;
  /** The cost of serving the item, such as tokens; above 0. */
  readonly cost: number;
  /** The share of the item's key relative to others of its class; above 0, by default 1. The newest item decides. */
  readonly weight?: number;
  /** The order within a key: a higher rank is served earlier; by default 0. */
  readonly rank?: number;
  /** By default `default`. */
  readonly priorityClass?: PriorityClass;
};

/** The items of one key in one class. */
type Flow<Item> = {
  readonly key: string;
  /** Higher rank first, then in order of arrival. */
  readonly items: Item[];
  weight: number;
  /** The charges per unit of weight that the key has paid; its next item is due one item's cost later. */
  paid: number;
  /** The number of the key's last service; 0 if it has had none since it was added. */
  lastServed: number;
  /** The arrival number of the key, which breaks ties. */
  readonly arrival: number;
};

/** The flows of one class, and its virtual clock. */
type Lane<Item> = {
  readonly flows: Map<string, Flow<Item>>;
  /** The highest `paid` of all flows so far: where a new flow begins, so that idle keys save no credit. */
  paid: number;
  /** The virtual time of the class, which its own work advances, the slower the larger its share. */
  clock: number;
};

/** A flow as a pass of `order` sees it: as if the first `at` of its items had been served. */
type Cursor<Item> = Pick<Flow<Item>, "paid" | "lastServed"> & {
  readonly flow: Flow<Item>;
  readonly items: readonly Item[];
  at: number;
};

/**
 * Decides which waiting item is served next, in every queue of requests. Between classes by self-clocked fair queueing
 * (Golestani, 1994): an urgent class is served first, and a less urgent one as soon as its wait pays for its item.
 * Within a class by deficit round robin between keys (Shreedhar and Varghese, 1996) with a quantum that approaches
 * zero: the key whose next item is paid for first is served, so cost is shared fairly, not the number of items.
 *
 * It has no bounds and no clock: the owner of a queue bounds it, with `crowdBeside` when it is full.
 */
export class FairQueue<Item extends FairItem> {
  readonly #lanes: Readonly<Record<PriorityClass, Lane<Item>>> = {
    high: { flows: new Map(), paid: 0, clock: 0 },
    default: { flows: new Map(), paid: 0, clock: 0 },
    low: { flows: new Map(), paid: 0, clock: 0 },
  };
  /** The number of waiting items. Changed by this class only. */
  size = 0;
  #served = 0;
  #arrivals = 0;
  /** The clock of the class that was served last. */
  #now = 0;

  sizeOf(name: PriorityClass): number {
    let size = 0;
    for (const { items } of this.#lanes[name].flows.values()) size += items.length;
    return size;
  }

  /** Returns the items of one key, more urgent classes first. */
  itemsOf(key: string): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#lanes[name].flows.get(key)?.items ?? []);
  }

  /** Returns all items, in no particular order. */
  items(): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => [...this.#lanes[name].flows.values()].flatMap(({ items }) => items));
  }

  push(item: Item): void {
    const { key, weight = 1, rank = 0, priorityClass = "default" } = item;
    const lane = this.#lanes[priorityClass];
    if (lane.flows.size === 0) lane.clock = Math.max(lane.clock, this.#now);
    let flow = lane.flows.get(key);
    if (!flow) {
      this.#arrivals += 1;
      flow = { key, items: [], weight, paid: lane.paid, lastServed: 0, arrival: this.#arrivals };
      lane.flows.set(key, flow);
    }
    const after = flow.items.findLastIndex((other) => (other.rank ?? 0) >= rank);
    flow.items.splice(after + 1, 0, item);
    flow.weight = weight;
    this.size += 1;
  }

  /**
   * Yields the waiting items in the order of service, as if each were served. Between two of them, the caller may take
   * items already yielded, and add keys to `aside`, whose further items are skipped. Items added meanwhile are not seen.
   */
  *order(aside?: ReadonlySet<string>): Generator<Item, void, undefined> {
    const lanes = PRIORITY_CLASSES.map((name) => {
      const { flows, clock } = this.#lanes[name];
      const cursorOf = (flow: Flow<Item>): Cursor<Item> => ({ ...flow, flow, items: [...flow.items], at: 0 });
      return { share: CLASS_SHARES[name], clock, cursors: [...flows.values()].map(cursorOf) };
    });
    for (let served = this.#served + 1; ; served += 1) {
      let next:
        | { readonly lane: (typeof lanes)[number]; readonly cursor: Cursor<Item>; readonly item: Item }
        | undefined;
      let soonest = Number.POSITIVE_INFINITY;
      for (const lane of lanes) {
        const cursor = soonestOf(lane.cursors, aside);
        const item = cursor?.items[cursor.at];
        const due = lane.clock + (item?.cost ?? Number.POSITIVE_INFINITY) / lane.share;
        if (cursor && item && due < soonest) [next, soonest] = [{ lane, cursor, item }, due];
      }
      if (!next) return;
      const { lane, cursor, item } = next;
      lane.clock = soonest;
      cursor.at += 1;
      cursor.paid += item.cost / cursor.flow.weight;
      cursor.lastServed = served;
      yield item;
    }
  }

  /** Removes and returns the item to be served next; undefined if none waits. */
  next(): Item | undefined {
    const { value: item } = this.order().next();
    if (item) this.take(item);
    return item ?? undefined;
  }

  /** Removes an item that is served now, and charges its key and class. */
  take(item: Item): void {
    const { key, cost, priorityClass = "default" } = item;
    const lane = this.#lanes[priorityClass];
    const flow = lane.flows.get(key);
    if (!flow?.items.includes(item)) return;
    flow.paid += cost / flow.weight;
    lane.paid = Math.max(lane.paid, flow.paid);
    lane.clock += cost / CLASS_SHARES[priorityClass];
    this.#now = lane.clock;
    this.#served += 1;
    flow.lastServed = this.#served;
    this.#takeOut(lane, flow, item);
  }

  /** Removes an item that leaves without being served. Returns false if it was not waiting. */
  remove(item: Item): boolean {
    const lane = this.#lanes[item.priorityClass ?? "default"];
    const flow = lane.flows.get(item.key);
    if (!flow?.items.includes(item)) return false;
    this.#takeOut(lane, flow, item);
    return true;
  }

  /**
   * Returns the eviction candidates for an item of `key` when the queue is full: all items of the key with the most
   * items, least urgent last. Empty if that key would then have fewer than `key`: a flood evicts only its own items.
   */
  crowdBeside(key: string): readonly Item[] {
    const keys = new Set(PRIORITY_CLASSES.flatMap((name) => [...this.#lanes[name].flows.keys()]));
    let most = this.itemsOf(key).length + 1;
    let crowd: readonly Item[] = [];
    for (const other of keys) {
      const items = this.itemsOf(other);
      if (items.length <= most) continue;
      most = items.length;
      crowd = items;
    }
    return crowd;
  }

  #takeOut({ flows, paid }: Lane<Item>, flow: Flow<Item>, item: Item): void {
    flow.items.splice(flow.items.indexOf(item), 1);
    this.size -= 1;
    const [head] = flow.items;
    if (!head) flows.delete(flow.key);
    // The credit for a removed item pays for one other item at most: giving up saves none.
    else flow.paid = Math.max(flow.paid, paid - head.cost / flow.weight);
  }
}

/** Returns the flow whose next item is due first. */
function soonestOf<Item extends FairItem>(
  cursors: readonly Cursor<Item>[],
  aside?: ReadonlySet<string>,
): Cursor<Item> | undefined {
  let best: Cursor<Item> | undefined;
  let bestDue = Number.POSITIVE_INFINITY;
  for (const cursor of cursors) {
    const { flow, items, at, paid } = cursor;
    const item = items[at];
    if (!item || aside?.has(flow.key)) continue;
    const due = paid + item.cost / flow.weight;
    if (best && (due > bestDue || (due === bestDue && precedence(cursor, best) > 0))) continue;
    [best, bestDue] = [cursor, due];
  }
  return best;
}

/**
 * Orders keys whose items are due at once: the one that was not served for the longest time first, then the one with the
 * fewest items, then the one that arrived first.
 */
function precedence<Item>(one: Cursor<Item>, other: Cursor<Item>): number {
  const left = ({ items, at }: Cursor<Item>) => items.length - at;
  return one.lastServed - other.lastServed || left(one) - left(other) || one.flow.arrival - other.flow.arrival;
}
