import type { HeldPrefixes } from "../../../prefixes/held-prefixes.ts";
import type { KvEvent, StoredBlocks } from "./kv-event.ts";
import { chainHash, NO_BLOCK } from "./token-chain.ts";

/** The most tracked blocks, about 500 bytes each; blocks stored beyond them are not reported. */
const MAX_BLOCKS = 262_144;
/** The most digests that are mapped to blocks. */
const MAX_TIES = 65_536;
/** The most recent prompts in which blocks are located, and the most tokens of all of them. */
const MAX_LINES = { lines: 32, tokens: 2_000_000 };

/** A prompt that is sent to the engine: its tokens, and the hashes of its whole blocks. */
type PromptLine = { readonly tokens: ArrayLike<number>; readonly hashes: readonly number[] };

type Block = {
  /** The node's own hash of everything up to the end of the block. */
  readonly hash: number;
  readonly parent: Block | undefined;
  children: Block[];
  /** The number of copies in the engine, which may compute a block for several requests at once. */
  copies: number;
  /** Whether only a later block shows that the engine has this one. */
  isInferred: boolean;
  /** Whether the engine has the block and all blocks before it. */
  held: boolean;
  /** The next block of the newest prompt that continued here. */
  newest: Block | undefined;
};

/** The position of a digest in the engine's blocks. */
export type Tie = {
  readonly model: string;
  /** The hash of the last block that must be held for the prefix to be. */
  readonly hash: number;
  /** The tokens of the whole blocks up to the position, or fewer if the position is not exact. */
  readonly tokens: number;
  readonly isExact: boolean;
  /** Whether tokens behind the position are reported with this digest, and not with a later one. */
  readonly hasTail: boolean;
};

type Named = { readonly block: Block; copies: number };

/**
 * Tracks the blocks that an engine holds through its events, and reports the held digests. Digests may be mapped to
 * blocks before the engine reports the blocks, as requests and events arrive separately. Blocks are identified by their
 * tokens: the engine's own hashes cannot be computed outside it.
 */
export class EngineBlocks {
  readonly #held: HeldPrefixes;
  readonly #counts: boolean;
  readonly #maxBlocks: number;
  readonly #blocks = new Map<number, Block>();
  readonly #named = new Map<number, Map<string, Named>>();
  readonly #ties = new Map<string, Tie>();
  readonly #tied = new Map<number, Set<string>>();
  #lines: PromptLine[] = [];
  /** The blocks that changed since the last report. */
  readonly #changed = new Set<Block>();
  #blockTokens = 0;
  #isMixed = false;

  /** Reports to `held`. `counts` means that the engine reports each stored and removed copy of a block. */
  constructor(held: HeldPrefixes, counts: boolean, maxBlocks = MAX_BLOCKS) {
    this.#held = held;
    this.#counts = counts;
    this.#maxBlocks = maxBlocks;
  }

  /** The number of tokens per block; 0 before the first event. */
  get blockTokens(): number {
    return this.#blockTokens;
  }

  get tokens(): number {
    return this.#blocks.size * this.#blockTokens;
  }

  /** Whether the cache's reusable content is not determined by whole blocks of one size. */
  get isMixed(): boolean {
    return this.#isMixed;
  }

  /** Returns whether the engine holds a block and all blocks before it. */
  holds(hash: number | undefined): boolean {
    return hash !== undefined && this.#blocks.get(hash)?.held === true;
  }

  /** Returns the tokens of the blocks that the engine holds of a prompt, from its beginning. */
  tokensOf(hashes: readonly number[]): number {
    let low = 0;
    for (let high = hashes.length; low < high; ) {
      const middle = Math.ceil((low + high) / 2);
      if (this.holds(hashes[middle - 1])) low = middle;
      else high = middle - 1;
    }
    return low * this.#blockTokens;
  }

  tieOf(digest: string): Tie | undefined {
    return this.#ties.get(digest);
  }

  /** Applies events of one rank, in order. */
  take(rank: number, events: readonly KvEvent[]): void {
    for (const event of events) {
      if (event.kind === "stored") this.#stored(rank, event);
      else if (event.kind === "removed") this.#removed(rank, event.hashes);
      else if (event.kind === "cleared") this.#cleared(rank);
      else this.#isMixed = true;
    }
    this.#tellChanged();
  }

  /** Drops all blocks of one rank, after its restart or a loss of events. */
  forget(rank: number): void {
    this.#cleared(rank);
    this.#tellChanged();
  }

  /** Records a prompt before it is sent to the engine, which makes it the newest one. */
  used(line: PromptLine): void {
    this.#lines.push(line);
    let tokens = this.#lines.reduce((sum, one) => sum + one.tokens.length, 0);
    while (this.#lines.length > MAX_LINES.lines || tokens > MAX_LINES.tokens)
      tokens -= this.#lines.shift()?.tokens.length ?? tokens;
    let before: Block | undefined;
    for (const hash of line.hashes) {
      const block = this.#blocks.get(hash);
      if (!block) break;
      if (before) before.newest = block;
      before = block;
    }
    this.#tellChanged();
  }

  /** Maps digests to blocks, replacing their earlier ties. */
  tie(ties: ReadonlyMap<string, Tie>): void {
    for (const [digest, tie] of ties) {
      this.#untie(digest);
      this.#ties.set(digest, tie);
      const others = this.#tied.get(tie.hash);
      if (others) others.add(digest);
      else this.#tied.set(tie.hash, new Set([digest]));
    }
    for (const digest of ties.keys()) this.#tell(digest);
    for (const digest of this.#ties.keys()) {
      if (this.#ties.size <= MAX_TIES) break;
      this.#untie(digest);
      this.#held.drop(digest);
    }
  }

  #stored(rank: number, event: StoredBlocks): void {
    const { hashes, parent, tokens, blockTokens, extras } = event;
    if (this.#blockTokens === 0) this.#blockTokens = blockTokens;
    if (blockTokens !== this.#blockTokens || blockTokens === 0 || tokens.length !== hashes.length * blockTokens) {
      this.#isMixed = true;
      return;
    }
    const named = this.#named.get(rank) ?? new Map<string, Named>();
    this.#named.set(rank, named);
    let before = parent === undefined ? undefined : (named.get(parent)?.block ?? this.#found(event, named, parent));
    if (parent !== undefined && !before) return;
    for (const [index, name] of hashes.entries()) {
      const from = index * blockTokens;
      const hash = chainHash(before?.hash ?? NO_BLOCK, tokens, from, from + blockTokens, extras[index]);
      const block = this.#blocks.get(hash) ?? this.#added(hash, before);
      if (!block) return;
      if (before) before.newest = block;
      this.#name(named, name, block);
      before = block;
    }
  }

  /**
   * Returns the parent of blocks that was stored before the node started or while its connection was down, by finding
   * the tokens of the blocks in a recent prompt; undefined if they are at no place, or at more than one.
   */
  #found({ tokens, blockTokens }: StoredBlocks, named: Map<string, Named>, parent: string): Block | undefined {
    let found: readonly number[] | undefined;
    for (const line of this.#lines) {
      for (let index = 1; (index + 1) * blockTokens <= line.tokens.length; index += 1) {
        if (!agrees(line.tokens, index * blockTokens, tokens)) continue;
        if (found && found.at(-1) !== line.hashes[index - 1]) return undefined;
        found = line.hashes.slice(0, index);
      }
    }
    const block = found && this.#inferred(found);
    if (block) this.#name(named, parent, block);
    return block;
  }

  /** Returns the last of these blocks. The engine has stored blocks after it, and therefore holds them all. */
  #inferred(hashes: readonly number[]): Block | undefined {
    let block: Block | undefined;
    for (const hash of hashes) {
      const before: Block | undefined = block;
      block = this.#blocks.get(hash) ?? this.#added(hash, before);
      if (!block) return undefined;
      if (before) before.newest = block;
      if (block.copies > 0) continue;
      block.copies = 1;
      block.isInferred = true;
      this.#update(block);
    }
    return block;
  }

  #added(hash: number, parent: Block | undefined): Block | undefined {
    if (this.#blocks.size >= this.#maxBlocks) return undefined;
    const block: Block = { hash, parent, children: [], copies: 0, isInferred: false, held: false, newest: undefined };
    parent?.children.push(block);
    this.#blocks.set(hash, block);
    return block;
  }

  #name(named: Map<string, Named>, name: string, block: Block): void {
    const known = named.get(name);
    if (known && known.block !== block) this.#unname(named, name, known, known.copies);
    else if (known && !this.#counts) return;
    const entry = named.get(name) ?? { block, copies: 0 };
    entry.copies += 1;
    named.set(name, entry);
    if (block.isInferred) block.isInferred = false;
    else block.copies += 1;
    this.#update(block);
  }

  #removed(rank: number, hashes: readonly string[]): void {
    const named = this.#named.get(rank);
    for (const name of hashes) {
      const known = named?.get(name);
      if (named && known) this.#unname(named, name, known, 1);
    }
  }

  #cleared(rank: number): void {
    const named = this.#named.get(rank);
    if (!named) return;
    for (const [name, known] of named) this.#unname(named, name, known, known.copies);
  }

  #unname(named: Map<string, Named>, name: string, known: Named, copies: number): void {
    known.copies -= copies;
    if (known.copies === 0) named.delete(name);
    known.block.copies -= copies;
    this.#update(known.block);
    this.#prune(known.block);
  }

  /** Removes blocks that the engine does not have, or is only inferred to have, and that have no children. */
  #prune(block: Block): void {
    for (let at: Block | undefined = block; at && at.children.length === 0; at = at.parent) {
      const { hash, parent }: Block = at;
      if (at.copies > 0 && !at.isInferred) return;
      at.copies = 0;
      this.#update(at);
      this.#blocks.delete(hash);
      if (!parent) return;
      parent.children = parent.children.filter((child) => child !== at);
      if (parent.newest === at) parent.newest = parent.children.at(-1);
    }
  }

  /** Recomputes whether a block and its descendants are held. */
  #update(block: Block): void {
    const open = [block];
    for (let at = open.pop(); at; at = open.pop()) {
      const held = at.copies > 0 && (at.parent?.held ?? true);
      if (held === at.held) continue;
      at.held = held;
      this.#changed.add(at);
      open.push(...at.children);
    }
  }

  #tellChanged(): void {
    const digests = new Set<string>();
    const add = (block: Block | undefined) => {
      for (const digest of (block && this.#tied.get(block.hash)) ?? []) digests.add(digest);
    };
    for (const block of this.#changed) {
      add(block);
      if (block.parent && this.#changed.has(block.parent)) continue;
      // The change affects the tail of the closest digest before it.
      let owner = block.parent;
      while (owner && !this.#tied.has(owner.hash)) owner = owner.parent;
      add(owner);
    }
    this.#changed.clear();
    for (const digest of digests) this.#tell(digest);
  }

  #tell(digest: string): void {
    const tie = this.#ties.get(digest);
    const block = tie && this.#blocks.get(tie.hash);
    if (!tie || !block?.held) this.#held.drop(digest);
    else {
      const { model, tokens, hasTail } = tie;
      this.#held.hold(digest, { model, tokens, tailTokens: hasTail ? this.#tailTokens(block) : 0 });
    }
  }

  /** Returns the number of held tokens behind a block, up to the next digest's position; 0 if all of them are held. */
  #tailTokens(block: Block): number {
    let count = 0;
    for (let at = block.newest; at?.held; at = at.newest) {
      if (this.#tied.has(at.hash)) return 0;
      count += 1;
    }
    return count * this.#blockTokens;
  }

  #untie(digest: string): void {
    const tie = this.#ties.get(digest);
    if (!tie) return;
    this.#ties.delete(digest);
    const others = this.#tied.get(tie.hash);
    others?.delete(digest);
    if (others?.size === 0) this.#tied.delete(tie.hash);
  }
}

/** Returns whether a prompt has these tokens from a position on, up to its end. */
function agrees(prompt: ArrayLike<number>, from: number, tokens: readonly number[]): boolean {
  const count = Math.min(tokens.length, prompt.length - from);
  for (let at = 0; at < count; at += 1) if (prompt[from + at] !== tokens[at]) return false;
  return true;
}
