import { ClassShare, PRIORITY_CLASSES, type PriorityClass } from "./class-share.ts";
import { FairTurns, type TurnItem } from "./fair-turns.ts";

/** Something that waits to be served. */
export type FairItem = TurnItem & {
  /** The class of urgency that the item belongs to. */
  readonly priorityClass: PriorityClass;
};

/**
 * Decides who of those that wait is served next, wherever requests wait in this service: classes of urgency get their
 * shares of the work, and within a class the keys take turns by what their items cost. It bounds nothing and knows no
 * time: whoever owns a queue does that, with `crowdBeside` where it is full.
 */
export class FairQueue<Item extends FairItem> {
  readonly #shares = new ClassShare();
  readonly #turns: Readonly<Record<PriorityClass, FairTurns<Item>>> = {
    high: new FairTurns(),
    default: new FairTurns(),
    low: new FairTurns(),
  };
  /** The functions that undo the taking of each item that `next` gave. */
  readonly #undo = new WeakMap<Item, () => void>();

  /** The number of items that wait. */
  get size(): number {
    return PRIORITY_CLASSES.reduce((sum, name) => sum + this.#turns[name].size, 0);
  }

  /** The number of items of one class that wait. */
  sizeOf(name: PriorityClass): number {
    return this.#turns[name].size;
  }

  /** Returns the items of one key, the more urgent classes first. */
  itemsOf(key: string): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].itemsOf(key));
  }

  /** Returns all items, in no particular order. */
  items(): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].items());
  }

  /**
   * Returns all items, the more urgent classes first and each class in the order in which it is served: about that of
   * serving.
   */
  order(): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].order());
  }

  /** Adds an item. */
  push(item: Item): void {
    const turns = this.#turns[item.priorityClass];
    if (turns.size === 0) this.#shares.wake(item.priorityClass);
    turns.push(item);
  }

  /**
   * Takes out the item that is to be served next, of none of the keys in `aside`, which by default is empty; undefined
   * when nobody else waits.
   */
  next(aside?: ReadonlySet<string>): Item | undefined {
    const name = this.#shares.next((candidate) => this.#turns[candidate].peek(aside)?.cost);
    const taken = name && this.#turns[name].take(aside);
    if (!taken) return undefined;
    const { item, putBack } = taken;
    const undoShare = this.#shares.served(item.priorityClass, item.cost);
    this.#undo.set(item, () => {
      putBack();
      undoShare();
    });
    return item;
  }

  /**
   * Undoes calls of `next` whose results could not be served: these items are next again, and their keys and classes
   * have spent nothing for them. `items` are those results in their order. Nobody may have come or left since the first
   * of these calls.
   */
  putBack(items: readonly Item[]): void {
    for (const item of items.toReversed()) {
      this.#undo.get(item)?.();
      this.#undo.delete(item);
    }
  }

  /** Takes out an item that leaves without being served. Returns false when it was not waiting. */
  remove(item: Item): boolean {
    return this.#turns[item.priorityClass].remove(item);
  }

  /**
   * Returns the items of which one has to give way to one more of `key` where there is no room: those of the key that
   * has the most, the least urgent last. Empty where that key would then have fewer than the newcomer's: a flood drowns
   * only itself.
   */
  crowdBeside(key: string): readonly Item[] {
    const keys = new Set(PRIORITY_CLASSES.flatMap((name) => this.#turns[name].keys()));
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
}
