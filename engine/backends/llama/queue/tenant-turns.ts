/** Something that waits for its turn. */
export type FairItem = {
  /** Whose it is: turns are shared between these. */
  readonly tenant: string;
  /** Higher goes earlier; 0 is usual. */
  readonly priority: number;
  /** What serving it takes, in tokens; above 0. */
  readonly cost: number;
};

type Flow<Item> = {
  /** Higher priority first, then as they came. */
  readonly items: Item[];
  /** What everybody had earned when this tenant had nothing left of its own. */
  brokeAt: number;
  /** Number of its last turn; 0 for a tenant that has had none since it came. */
  lastTurn: number;
};

/**
 * Deficit round robin (Shreedhar and Varghese, 1996) with a quantum of one token: all tenants that wait earn at the same
 * pace, and who first has what its next item costs is served. So tokens are shared fairly, not requests. Earnings are
 * counted from the start, which makes rounds in which nobody is served free of work.
 */
export class TenantTurns<Item extends FairItem> {
  readonly #flows = new Map<string, Flow<Item>>();
  #earned = 0;
  #turns = 0;

  /** How many wait, of one tenant or of all. */
  count(tenant?: string): number {
    if (tenant !== undefined) return this.#flows.get(tenant)?.items.length ?? 0;
    let count = 0;
    for (const { items } of this.#flows.values()) count += items.length;
    return count;
  }

  tenants(): readonly string[] {
    return [...this.#flows.keys()];
  }

  push(item: Item): void {
    let flow = this.#flows.get(item.tenant);
    if (!flow) {
      flow = { items: [], brokeAt: this.#earned, lastTurn: 0 };
      this.#flows.set(item.tenant, flow);
    }
    const after = flow.items.findLastIndex(({ priority }) => priority >= item.priority);
    flow.items.splice(after + 1, 0, item);
  }

  /** Who is next; of equals, who has waited longest for a turn, and then who wants least. */
  next(): Item | undefined {
    let best: Flow<Item> | undefined;
    for (const flow of this.#flows.values()) if (!best || isSooner(flow, best)) best = flow;
    return best?.items[0];
  }

  /** The last of a tenant's items. */
  last(tenant: string): Item | undefined {
    return this.#flows.get(tenant)?.items.at(-1);
  }

  /** Takes out what `next` gave: it is served, and its tenant has paid for it. */
  serve(item: Item): void {
    const flow = this.#flows.get(item.tenant);
    if (!flow) return;
    flow.brokeAt += item.cost;
    this.#earned = Math.max(this.#earned, flow.brokeAt);
    this.#turns += 1;
    flow.lastTurn = this.#turns;
    this.remove(item);
  }

  /** Takes out an item that left without being served. False when it is not here. */
  remove(item: Item): boolean {
    const flow = this.#flows.get(item.tenant);
    const at = flow?.items.indexOf(item) ?? -1;
    if (!flow || at < 0) return false;
    flow.items.splice(at, 1);
    const [head] = flow.items;
    if (!head) this.#flows.delete(item.tenant);
    // What was earned for an item that has left pays for one other at most: nobody saves up by giving up.
    else flow.brokeAt = Math.max(flow.brokeAt, this.#earned - head.cost);
    return true;
  }

  /** All that wait, in the order in which they are served if nobody comes or leaves. */
  order(): readonly Item[] {
    const all = [...this.#flows.values()].flatMap(({ items, brokeAt, lastTurn }) => {
      let due = brokeAt;
      return items.map((item) => {
        due += item.cost;
        return { item, due, lastTurn, count: items.length };
      });
    });
    return all.sort((a, b) => a.due - b.due || a.lastTurn - b.lastTurn || a.count - b.count).map(({ item }) => item);
  }
}

function isSooner<Item extends FairItem>(one: Flow<Item>, other: Flow<Item>): boolean {
  const due = ({ items, brokeAt }: Flow<Item>) => brokeAt + (items[0]?.cost ?? Number.POSITIVE_INFINITY);
  const difference = due(one) - due(other) || one.lastTurn - other.lastTurn || one.items.length - other.items.length;
  return difference < 0;
}
