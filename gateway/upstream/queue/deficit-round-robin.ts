/** Something that waits. */
export type FairItem = {
  /** Whose it is. */
  readonly key: string;
  /** What serving it costs; above 0. */
  readonly cost: number;
  /** The share of its key beside others; above 0. The newest item's counts. */
  readonly weight: number;
};

type Flow<I> = { readonly key: string; items: I[]; deficit: number; weight: number };

/**
 * Deficit round robin (Shreedhar and Varghese, 1996): keys take turns; each turn earns a key a quantum times its weight,
 * and it is served when what it earned covers its next item. So cost, not the number of items, is shared fairly.
 */
export class DeficitRoundRobin<I extends FairItem> {
  readonly #quantum: number;
  /** Keys with items; the first one has the turn. */
  #flows: Flow<I>[] = [];
  #size = 0;
  #newestFirst = false;

  /** `quantum`: at most what the cheapest item costs, else a key gets several served in one turn. */
  constructor(quantum: number) {
    this.#quantum = quantum;
  }

  get size(): number {
    return this.#size;
  }

  /** Which item of a key is its next one; not to be changed between `next` and `putBack`. */
  setNewestFirst(newestFirst: boolean): void {
    this.#newestFirst = newestFirst;
  }

  /** In the order of arrival. */
  itemsOf(key: string): readonly I[] {
    return this.#flows.find((flow) => flow.key === key)?.items ?? [];
  }

  /** Of all keys; of each in the order of arrival. */
  items(): I[] {
    return this.#flows.flatMap(({ items }) => items);
  }

  push(item: I): void {
    const flow = this.#flows.find(({ key }) => key === item.key);
    this.#size += 1;
    if (flow) {
      flow.items.push(item);
      flow.weight = item.weight;
    } else {
      // It begins with a turn's earnings: else those who were there before could be served twice before it.
      this.#flows.push({ key: item.key, items: [item], deficit: this.#quantum * item.weight, weight: item.weight });
    }
  }

  /** Takes out the item that is next. */
  next(): I | undefined {
    if (this.#flows.length === 0) return undefined;
    this.#skipIdleRounds();
    for (;;) {
      const flow = this.#flows[0];
      const item = flow && this.#head(flow);
      if (!flow || !item) return undefined;
      if (item.cost <= flow.deficit) {
        flow.deficit -= item.cost;
        this.remove(item);
        return item;
      }
      this.#passTurn();
    }
  }

  /** Undoes the newest `next`: the item is the next one again, and nobody has earned or spent anything. */
  putBack(item: I): void {
    const flow = this.#flows.find(({ key }) => key === item.key);
    this.#size += 1;
    if (flow) {
      if (this.#newestFirst) flow.items.push(item);
      else flow.items.unshift(item);
      flow.deficit += item.cost;
      return;
    }
    const [successor] = this.#flows;
    if (successor) successor.deficit -= this.#quantum * successor.weight;
    this.#flows.unshift({ key: item.key, items: [item], deficit: item.cost, weight: item.weight });
  }

  /** Takes out an item, wherever it is. A key without items keeps nothing of what it earned. */
  remove(item: I): boolean {
    const flow = this.#flows.find(({ key }) => key === item.key);
    const index = flow?.items.indexOf(item) ?? -1;
    if (!flow || index < 0) return false;
    flow.items.splice(index, 1);
    this.#size -= 1;
    if (flow.items.length === 0) this.#drop(flow);
    return true;
  }

  #head({ items }: Flow<I>): I | undefined {
    return this.#newestFirst ? items.at(-1) : items[0];
  }

  #drop(flow: Flow<I>): void {
    const hadTurn = this.#flows[0] === flow;
    this.#flows = this.#flows.filter((other) => other !== flow);
    if (hadTurn) this.#earn(this.#flows[0]);
  }

  #passTurn(): void {
    const [flow, ...others] = this.#flows;
    if (!flow) return;
    this.#flows = [...others, flow];
    this.#earn(this.#flows[0]);
  }

  #earn(flow: Flow<I> | undefined): void {
    if (flow) flow.deficit += this.#quantum * flow.weight;
  }

  /** Whole rounds in which nobody earns enough change nothing but the deficits. */
  #skipIdleRounds(): void {
    const rounds = this.#flows.map((flow) =>
      Math.ceil(((this.#head(flow)?.cost ?? 0) - flow.deficit) / (this.#quantum * flow.weight)),
    );
    const idle = Math.min(...rounds) - 1;
    if (idle <= 0) return;
    for (const flow of this.#flows) flow.deficit += idle * this.#quantum * flow.weight;
  }
}
