import type { BlockMemory, KvEvent, StoredBlocks } from "./kv-event.ts";
import { chainHash, NO_BLOCK } from "./token-chain.ts";

type Copies = Record<BlockMemory, number>;

/** A block of one rank's cache, behind the blocks of all tokens before it. */
export type Block = Copies & {
  /** The node's own hash of everything up to the end of the block. */
  readonly hash: number;
  /** The number of blocks up to its end. */
  readonly depth: number;
  readonly parent: Block | undefined;
  children: Block[];
  /** The engine's hash. */
  name: string;
  /** Whether only a later block shows that the engine has this one. */
  isInferred: boolean;
  /** Whether the engine has the block and all blocks before it, in any memory, and on the accelerator. */
  held: boolean;
  onDevice: boolean;
  /** The next block of the newest prompt that continued here. */
  newest: Block | undefined;
  usedMs: number;
};

/** The part of a prompt that a rank can reuse. */
export type CachedPart = {
  readonly tokens: number;
  /** The last of them, which the engine has to load from below the accelerator's memory. */
  readonly lowerTokens: number;
};

/** The part of a prompt in a rank's cache, which holds others besides. */
export type RankCache = CachedPart & {
  /** All tokens that the rank holds on its accelerator. */
  readonly heldTokens: number;
};

type Named = Copies & { readonly block: Block };

export type BlockTreeOptions = {
  readonly counts: boolean;
  readonly maxBlocks: number;
  readonly nowMs: () => number;
  /** Called when the engine has evicted a block that no prompt had used for `idleMs` milliseconds. */
  readonly onEvicted: (idleMs: number) => void;
  /** Returns the hashes of a recent prompt before these tokens; undefined if they are at no place, or at several. */
  readonly locate: (tokens: readonly number[], blockTokens: number) => readonly number[] | undefined;
};

/**
 * The blocks in the cache of one rank, by their tokens: the engine's own hashes cannot be computed outside it. Of a
 * hybrid model, the blocks are those of the first group of full attention. The other groups, windows and states, have
 * no block for most tokens: a prefix can be used up to the ends for which each of them has one.
 */
export class BlockTree {
  readonly #options: BlockTreeOptions;
  readonly #blocks = new Map<number, Block>();
  readonly #named = new Map<string, Named>();
  /** The copies of each other group by name. */
  readonly #ends = new Map<number, Map<string, number>>();
  /** The group of the blocks; undefined before the first event, and for an engine with one group. */
  #group: number | undefined;
  /** The number of tokens per block; 0 before the first event. */
  blockTokens = 0;
  /** The number of tokens behind a block that its hash covers. */
  lookahead = 0;
  /** The number of blocks that can be reused without loading. */
  onDevice = 0;
  /** The blocks that changed since the last call of `changes`. */
  #changed = new Set<Block>();

  constructor(options: BlockTreeOptions) {
    this.#options = options;
  }

  get(hash: number): Block | undefined {
    return this.#blocks.get(hash);
  }

  /** Returns whether a prompt that goes on behind this block can reuse everything up to it. */
  isEnd({ name }: Block): boolean {
    for (const names of this.#ends.values()) if (!names.has(name)) return false;
    return true;
  }

  /** Returns the reusable part of a prompt by the hashes of its blocks. */
  cached(hashes: readonly number[]): RankCache {
    let [end, onDevice] = [0, 0];
    for (const hash of hashes) {
      const block = this.#blocks.get(hash);
      if (!block?.held) break;
      if (this.isEnd(block)) end = block.depth;
      if (block.onDevice) onDevice = block.depth;
    }
    const tokensOf = (blocks: number) => blocks * this.blockTokens;
    const lowerTokens = tokensOf(Math.max(0, end - onDevice));
    return { tokens: tokensOf(end), lowerTokens, heldTokens: tokensOf(this.onDevice) };
  }

  changes(): ReadonlySet<Block> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  take(event: KvEvent): void {
    if (event.kind === "cleared") {
      this.clear();
      return;
    }
    if (event.kind === "stored" && this.blockTokens === 0 && isDense(event)) {
      this.#group = event.group;
      if (event.group !== undefined) this.#ends.delete(event.group);
      this.blockTokens = event.blockTokens;
      this.lookahead = event.lookahead;
    }
    const group = event.group ?? this.#group;
    if (group !== undefined && group !== this.#group)
      this.#changeEnds(group, event.hashes, event.kind === "stored" ? 1 : -1);
    else if (event.kind === "removed") this.#removed(event.hashes, event.memory);
    else if (event.tokens.length === 0) this.#copied(event);
    else this.#stored(event);
  }

  /** Drops all blocks, after a restart or a loss of events. */
  clear(): void {
    for (const [name, known] of this.#named)
      for (const memory of ["device", "lower"] as const) this.#unname(name, known, memory, known[memory]);
    for (const names of this.#ends.values()) names.clear();
  }

  /** Records a prompt that is sent to the engine, which makes it the newest one. */
  used(hashes: readonly number[]): void {
    let before: Block | undefined;
    const nowMs = this.#options.nowMs();
    for (const hash of hashes) {
      const block = this.#blocks.get(hash);
      if (!block) return;
      block.usedMs = nowMs;
      if (before) before.newest = block;
      before = block;
    }
  }

  #stored(event: StoredBlocks): void {
    const { hashes, parent, tokens, blockTokens, lookahead, extras, memory } = event;
    if (!isDense(event) || blockTokens < this.blockTokens) return;
    if (blockTokens > this.blockTokens || lookahead !== this.lookahead) {
      // An index of the same group came first, in smaller blocks; or the engine was started with other options.
      this.clear();
      this.blockTokens = blockTokens;
      this.lookahead = lookahead;
    }
    let before = parent === undefined ? undefined : (this.#named.get(parent)?.block ?? this.#found(event, parent));
    if (parent !== undefined && !before) return;
    for (const [index, name] of hashes.entries()) {
      const from = index * blockTokens;
      const hash = chainHash(before?.hash ?? NO_BLOCK, tokens, from, from + blockTokens + lookahead, extras[index]);
      const block = this.#blocks.get(hash) ?? this.#added(hash, before);
      if (!block) return;
      if (before) before.newest = block;
      this.#name(name, block, memory);
      before = block;
    }
  }

  /** Takes blocks that the engine only names: copies of blocks that it has, in another memory. */
  #copied({ hashes, memory }: StoredBlocks): void {
    for (const name of hashes) {
      const known = this.#named.get(name);
      if (known) this.#name(name, known.block, memory);
    }
  }

  /**
   * Returns the parent of blocks that was stored before the node started or while its connection was down, by finding
   * the tokens of the blocks in a recent prompt.
   */
  #found({ tokens, blockTokens }: StoredBlocks, parent: string): Block | undefined {
    const found = this.#options.locate(tokens, blockTokens);
    const block = found && this.#inferred(found);
    if (block) this.#name(parent, block, "device");
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
      if (block.device + block.lower > 0) continue;
      block.device = 1;
      block.isInferred = true;
      this.#update(block);
    }
    return block;
  }

  #added(hash: number, parent: Block | undefined): Block | undefined {
    if (this.#blocks.size >= this.#options.maxBlocks) return undefined;
    const block: Block = {
      ...{ hash, depth: (parent?.depth ?? 0) + 1, parent, children: [], name: "", device: 0, lower: 0 },
      ...{ isInferred: false, held: false, onDevice: false, newest: undefined, usedMs: this.#options.nowMs() },
    };
    parent?.children.push(block);
    this.#blocks.set(hash, block);
    return block;
  }

  #name(name: string, block: Block, memory: BlockMemory): void {
    let known = this.#named.get(name);
    if (known && known.block !== block) {
      this.#unname(name, known, "device", known.device);
      this.#unname(name, known, "lower", known.lower);
      known = undefined;
    }
    if (known && known[memory] > 0 && !this.#options.counts) return;
    known ??= { block, device: 0, lower: 0 };
    known[memory] += 1;
    this.#named.set(name, known);
    block.name = name;
    if (block.isInferred && memory === "device") block.isInferred = false;
    else block[memory] += 1;
    this.#update(block);
  }

  #removed(hashes: readonly string[], memory: BlockMemory): void {
    for (const name of hashes) {
      const known = this.#named.get(name);
      if (!known || known[memory] === 0) continue;
      const { block } = known;
      this.#unname(name, known, memory, 1);
      if (block.device + block.lower === 0) this.#options.onEvicted(this.#options.nowMs() - block.usedMs);
    }
  }

  #unname(name: string, known: Named, memory: BlockMemory, copies: number): void {
    if (copies === 0) return;
    known[memory] -= copies;
    if (known.device + known.lower === 0) this.#named.delete(name);
    known.block[memory] -= copies;
    this.#update(known.block);
    this.#prune(known.block);
  }

  /** Removes blocks that the engine does not have, or is only inferred to have, and that have no children. */
  #prune(block: Block): void {
    for (let at: Block | undefined = block; at && at.children.length === 0; at = at.parent) {
      const { hash, parent }: Block = at;
      if (at.isInferred) [at.device, at.isInferred] = [0, false];
      this.#update(at);
      if (at.device + at.lower > 0) return;
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
      const held = at.device + at.lower > 0 && (at.parent?.held ?? true);
      const onDevice = at.device > 0 && (at.parent?.onDevice ?? true);
      if (held === at.held && onDevice === at.onDevice) continue;
      if (onDevice !== at.onDevice) this.onDevice += onDevice ? 1 : -1;
      [at.held, at.onDevice] = [held, onDevice];
      this.#changed.add(at);
      open.push(...at.children);
    }
  }

  /** Counts blocks of another group, whose ends change the use of those behind them up to the next ends. */
  #changeEnds(group: number, hashes: readonly string[], more: 1 | -1): void {
    let names = this.#ends.get(group);
    if (!names) {
      if (more < 0) return;
      names = new Map();
      this.#ends.set(group, names);
      for (const block of this.#blocks.values()) this.#changed.add(block);
    }
    for (const name of hashes) {
      const copies = (names.get(name) ?? 0) + more;
      if (copies <= 0) names.delete(name);
      else if (names.has(name) || names.size < this.#options.maxBlocks)
        names.set(name, this.#options.counts ? copies : 1);
      const open = [this.#named.get(name)?.block];
      for (let at = open.pop(); at; at = open.pop()) {
        this.#changed.add(at);
        open.push(...at.children.filter((child) => !this.isEnd(child)));
      }
    }
  }
}

/** Returns whether an event has all tokens of its blocks. */
function isDense({ isFull, tokens, hashes, blockTokens, lookahead }: StoredBlocks): boolean {
  return isFull && blockTokens > 0 && tokens.length === hashes.length * blockTokens + lookahead;
}
