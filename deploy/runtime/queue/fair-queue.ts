import { ClassShare, PRIORITY_CLASSES, type PriorityClass } from "./class-share.ts";
import { FairTurns, type TurnItem } from "./fair-turns.ts";

/** An item that waits to be served. */
export type FairItem = TurnItem & {
  readonly priorityClass: PriorityClass;
};

/**
 * Decides which waiting item is served next, in every queue of requests: classes get their shares of the work, and
 * within a class the keys take turns by the cost of their items. It has no bounds and no clock: the owner of a queue
 * bounds it, with `crowdBeside` when it is full.
 */
export class FairQueue<Item extends FairItem> {
  readonly #shares = new ClassShare();
  readonly #turns: Readonly<Record<PriorityClass, FairTurns<Item>>> = {
    high: new FairTurns(),
    default: new FairTurns(),
    low: new FairTurns(),
  };
  /** Undo functions of the items that `next` returned. */
  readonly #undo = new WeakMap<Item, () => void>();

  /** The number of items that wait. */
  get size(): number {
    return PRIORITY_CLASSES.reduce((sum, name) => sum + this.#turns[name].size, 0);
  }

  sizeOf(name: PriorityClass): number {
    return this.#turns[name].size;
  }

  /** Returns the items of one key, more urgent classes first. */
  itemsOf(key: string): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].itemsOf(key));
  }

  /** Returns all items, in no particular order. */
  items(): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].items());
  }

  /**
   * Returns all items, more urgent classes first and each class in serving order: approximately the order of serving.
   */
  order(): readonly Item[] {
    return PRIORITY_CLASSES.flatMap((name) => this.#turns[name].order());
  }

  push(item: Item): void {
    const turns = this.#turns[item.priorityClass];
    if (turns.size === 0) this.#shares.wake(item.priorityClass);
    turns.push(item);
  }

  /**
   * Removes and returns the item to be served next, skipping the keys in `aside` (default: none); undefined if no other
   * item waits.
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
   * are not charged. `items` are those results in order. No item may have been added or removed since the first of
   * these calls.
   */
  putBack(items: readonly Item[]): void {
    for (const item of items.toReversed()) {
      this.#undo.get(item)?.();
      this.#undo.delete(item);
    }
  }

  /** Removes an item that leaves without being served. Returns false if it was not waiting. */
  remove(item: Item): boolean {
    return this.#turns[item.priorityClass].remove(item);
  }

  /**
   * Returns the eviction candidates for an item of `key` when the queue is full: all items of the key with the most
   * items, least urgent last. Empty if that key would then have fewer than `key`: a flood evicts only its own items.
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
