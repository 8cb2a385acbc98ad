import type { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import type { PrefixPlace } from "../../../../engine/prefixes/slot-prefixes.ts";

/** A prompt, with or without its answer, whose blocks are in a cache. */
export type BlockLine<Key> = {
  readonly model: string;
  readonly places: readonly PrefixPlace[];
  /** The keys of all whole blocks; each identifies everything up to its end. */
  readonly blocks: readonly Key[];
};

/** A prefix as the blocks up to its position, and the blocks behind it up to the next digest of the newest line. */
type Prefix<Key> = {
  readonly digest: string;
  readonly model: string;
  /** The number of whole blocks up to the position. */
  readonly needed: number;
  /** The last of the needed blocks. It is cached only as long as all blocks before it. */
  readonly last: Key;
  readonly tail: readonly Key[];
  readonly goesOn: boolean;
  heldTail: number;
};

/**
 * Maps prefixes to the blocks of a cache in which a block is held only as long as all blocks before it, and translates
 * changes of blocks to changes of prefixes. A new line replaces earlier records of its digests.
 */
export class BlockPrefixes<Key> {
  readonly #held: HeldPrefixes;
  readonly #blockTokens: number;
  readonly #prefixes = new Map<string, Prefix<Key>>();
  /** The prefixes by the keys of their last needed block and of their tail's blocks. */
  readonly #byBlock = new Map<Key, Set<Prefix<Key>>>();

  constructor(held: HeldPrefixes, blockTokens: number) {
    this.#held = held;
    this.#blockTokens = blockTokens;
  }

  stored({ model, places, blocks }: BlockLine<Key>, heldBlocks: number): void {
    const needs = places.map(({ tokens }) => Math.min(blocks.length, Math.floor(tokens / this.#blockTokens)));
    for (const [index, { digest }] of places.entries()) {
      this.#forget(digest);
      const needed = needs[index] ?? 0;
      const last = blocks[needed - 1];
      if (last === undefined || needed > heldBlocks) {
        this.#held.drop(digest);
        continue;
      }
      const next = needs[index + 1];
      const tail = blocks.slice(needed, next);
      const heldTail = Math.min(tail.length, heldBlocks - needed);
      const prefix = { digest, model, needed, last, tail, goesOn: next !== undefined, heldTail };
      this.#prefixes.set(digest, prefix);
      for (const block of [last, ...tail]) this.#index(block, prefix);
      this.#tell(prefix);
    }
  }

  removed(block: Key): void {
    for (const prefix of [...(this.#byBlock.get(block) ?? [])]) {
      if (prefix.last === block) {
        this.#forget(prefix.digest);
        this.#held.drop(prefix.digest);
        continue;
      }
      // A cache evicts the end of a line first.
      const at = prefix.tail.lastIndexOf(block, prefix.heldTail - 1);
      if (at < 0 || prefix.heldTail === 0) continue;
      prefix.heldTail = at;
      this.#tell(prefix);
    }
  }

  #tell({ digest, model, needed, tail, goesOn, heldTail }: Prefix<Key>): void {
    const isWhole = goesOn && heldTail === tail.length;
    const tailTokens = isWhole ? 0 : heldTail * this.#blockTokens;
    this.#held.hold(digest, { model, tokens: needed * this.#blockTokens, tailTokens });
  }

  #index(block: Key, prefix: Prefix<Key>): void {
    const known = this.#byBlock.get(block);
    if (known) known.add(prefix);
    else this.#byBlock.set(block, new Set([prefix]));
  }

  #forget(digest: string): void {
    const prefix = this.#prefixes.get(digest);
    if (!prefix) return;
    this.#prefixes.delete(digest);
    for (const block of [prefix.last, ...prefix.tail]) {
      const known = this.#byBlock.get(block);
      known?.delete(prefix);
      if (known?.size === 0) this.#byBlock.delete(block);
    }
  }
}
