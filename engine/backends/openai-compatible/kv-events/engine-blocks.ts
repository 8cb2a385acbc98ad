import type { HeldPrefixes, HeldTokens } from "../../../prefixes/held-prefixes.ts";
import { type Block, BlockTree, type RankCache } from "./block-tree.ts";
import type { KvEvent } from "./kv-event.ts";
import type { KnownTies, Tie } from "./prompt-ties.ts";
import { LOAD_SHARE } from "./rank-pick.ts";
import { chainHashes } from "./token-chain.ts";

/** The most tracked blocks, about 500 bytes each; blocks stored beyond them are not reported. */
const MAX_BLOCKS = 262_144;
const MAX_TIES = 65_536;
/** The most recent prompts in which blocks are located, and the most tokens of all of them. */
const MAX_LINES = { lines: 32, tokens: 2_000_000 };

/** The weight of the newest evicted block in the observed retention: the last 500 blocks dominate. */
const NEWEST = 0.002;

/** A prompt that is sent to the engine: its tokens, and the hashes of its whole blocks. */
type PromptLine = { readonly tokens: ArrayLike<number>; readonly hashes: readonly number[] };

export type EngineBlocksOptions = {
  readonly counts: boolean;
  /** The number of data-parallel ranks, of which each has its own cache. Default: 1. */
  readonly ranks?: number;
  readonly maxBlocks?: number;
  readonly nowMs: () => number;
};

/**
 * Tracks the blocks that an engine holds through its events, and reports the digests that any of its ranks holds.
 * Digests may be mapped to blocks before the engine reports the blocks, as requests and events arrive separately.
 */
export class EngineBlocks implements KnownTies {
  readonly #held: HeldPrefixes;
  readonly #trees: readonly BlockTree[];
  readonly #ties = new Map<string, Tie>();
  readonly #tied = new Map<number, Set<string>>();
  #lines: PromptLine[] = [];
  /** The idle time of recently evicted blocks, in milliseconds; undefined before the first eviction. */
  retentionMs: number | undefined;

  constructor(held: HeldPrefixes, { counts, ranks = 1, maxBlocks = MAX_BLOCKS, nowMs }: EngineBlocksOptions) {
    this.#held = held;
    const locate = (tokens: readonly number[], blockTokens: number) => this.#locate(tokens, blockTokens);
    const onEvicted = (idleMs: number) => {
      this.retentionMs = idleMs * NEWEST + (this.retentionMs ?? idleMs) * (1 - NEWEST);
    };
    const options = { counts, maxBlocks: Math.ceil(maxBlocks / ranks), nowMs, onEvicted, locate };
    this.#trees = Array.from({ length: ranks }, () => new BlockTree(options));
  }

  get blockTokens(): number {
    return Math.max(...this.#trees.map(({ blockTokens }) => blockTokens));
  }

  /** Returns the engine's hashes of a prompt's whole blocks, in the node's own form; `salt` separates tenants. */
  hashesOf(tokens: ArrayLike<number>, salt: string): readonly number[] {
    const lookahead = Math.max(...this.#trees.map((tree) => tree.lookahead));
    return chainHashes(tokens, this.blockTokens, salt, lookahead);
  }

  /** The tokens on the accelerators. */
  get tokens(): number {
    return this.#trees.reduce((sum, { onDevice, blockTokens }) => sum + onDevice * blockTokens, 0);
  }

  /** Returns whether a rank holds a block and all blocks before it. */
  holds(hash: number | undefined): boolean {
    return hash !== undefined && this.#trees.some((tree) => tree.get(hash)?.held);
  }

  tieOf(digest: string): Tie | undefined {
    return this.#ties.get(digest);
  }

  commonBlocks({ hash }: Tie, hashes: readonly number[]): number | undefined {
    let at = this.#trees.map((tree) => tree.get(hash)).find((block) => block !== undefined);
    if (!at) return undefined;
    while (at && hashes[at.depth - 1] !== at.hash) at = at.parent;
    return at?.depth ?? 0;
  }

  cached(hashes: readonly number[]): readonly RankCache[] {
    return this.#trees.map((tree) => tree.cached(hashes));
  }

  take(rank: number, events: readonly KvEvent[]): void {
    const tree = this.#trees[rank];
    for (const event of events) tree?.take(event);
    this.#updateChanged(rank);
  }

  forget(rank: number): void {
    this.#trees[rank]?.clear();
    this.#updateChanged(rank);
  }

  used(line: PromptLine): void {
    this.#lines.push(line);
    let tokens = this.#lines.reduce((sum, one) => sum + one.tokens.length, 0);
    while (this.#lines.length > MAX_LINES.lines || tokens > MAX_LINES.tokens)
      tokens -= this.#lines.shift()?.tokens.length ?? tokens;
    for (const tree of this.#trees) tree.used(line.hashes);
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
    for (const digest of ties.keys()) this.#updateHeld(digest);
    for (const digest of this.#ties.keys()) {
      if (this.#ties.size <= MAX_TIES) break;
      this.#untie(digest);
      this.#held.drop(digest);
    }
  }

  #locate(tokens: readonly number[], blockTokens: number): readonly number[] | undefined {
    let found: readonly number[] | undefined;
    for (const line of this.#lines) {
      for (let index = 1; (index + 1) * blockTokens <= line.tokens.length; index += 1) {
        if (!agrees(line.tokens, index * blockTokens, tokens)) continue;
        if (found && found.at(-1) !== line.hashes[index - 1]) return undefined;
        found = line.hashes.slice(0, index);
      }
    }
    return found;
  }

  #updateChanged(rank: number): void {
    const changed = this.#trees[rank]?.changes() ?? new Set();
    const digests = new Set<string>();
    const add = (block: Block | undefined) => {
      for (const digest of (block && this.#tied.get(block.hash)) ?? []) digests.add(digest);
    };
    for (const block of changed) {
      add(block);
      if (block.parent && changed.has(block.parent)) continue;
      // The change affects the tail of the closest digest before it.
      let owner = block.parent;
      while (owner && !this.#tied.has(owner.hash)) owner = owner.parent;
      add(owner);
    }
    for (const digest of digests) this.#updateHeld(digest);
  }

  #updateHeld(digest: string): void {
    const tie = this.#ties.get(digest);
    let best: HeldTokens | undefined;
    for (const tree of tie ? this.#trees : []) {
      const held = tie && this.#heldIn(tree, tie);
      if (held && (!best || readTokens(held) > readTokens(best))) best = held;
    }
    if (best) this.#held.hold(digest, best);
    else this.#held.drop(digest);
  }

  /** Returns what a rank holds of a prefix; undefined for nothing that can be used. */
  #heldIn(tree: BlockTree, { model, hash, tokens, hasTail }: Tie): HeldTokens | undefined {
    const block = tree.get(hash);
    if (!block?.held) return undefined;
    let end: Block | undefined = block;
    while (end && !tree.isEnd(end)) end = end.parent;
    const tail = hasTail ? this.#tailEnd(tree, block) : undefined;
    if (!end && !tail) return undefined;
    const { blockTokens } = tree;
    let lower = 0;
    for (let at = tail ?? end; at && !at.onDevice; at = at.parent) lower += 1;
    const usable = Math.min(tokens, (end?.depth ?? 0) * blockTokens);
    const tailTokens = tail ? (tail.depth - block.depth) * blockTokens : 0;
    return { model, tokens: usable, tailTokens, lowerTokens: Math.min(lower * blockTokens, usable + tailTokens) };
  }

  /** Returns the last usable block behind another, before the next digest's position; undefined if all are held. */
  #tailEnd(tree: BlockTree, block: Block): Block | undefined {
    let end: Block | undefined;
    for (let at = block.newest; at?.held; at = at.newest) {
      if (this.#tied.has(at.hash)) return undefined;
      if (tree.isEnd(at)) end = at;
    }
    return end;
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

/** Returns the tokens that a rank need not prefill, less those that take a share of that time to load. */
function readTokens({ tokens, tailTokens, lowerTokens = 0 }: HeldTokens): number {
  return tokens + tailTokens - LOAD_SHARE * lowerTokens;
}

/** Returns whether a prompt has these tokens from a position on, up to its end. */
function agrees(prompt: ArrayLike<number>, from: number, tokens: readonly number[]): boolean {
  const count = Math.min(tokens.length, prompt.length - from);
  for (let at = 0; at < count; at += 1) if (prompt[from + at] !== tokens[at]) return false;
  return true;
}
