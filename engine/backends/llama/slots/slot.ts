import type { LlamaContextSequence, Token } from "node-llama-cpp";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import { commonLength } from "./common-length.ts";
import { KEPT_COPIES } from "./kept-copies.ts";

/** What is to be in the cache of a slot. */
export type SlotPrompt = {
  /** The tokens of the prompt. */
  readonly prompt: readonly Token[];
  /** The isolation domain of the request: only caches of the same domain are ever reused. */
  readonly isolation: string;
  /** The places that digests name in the prompt. Absent where nobody is to be told of them. */
  readonly line?: SlotLine | undefined;
};

/** A slot: one sequence of the context, and what its part of the KV cache holds. */
export class Slot {
  /** The sequence of the library that decodes for the slot. */
  readonly sequence: LlamaContextSequence;
  /** The place of the sequence among all sequences of the context, from 0. */
  readonly place: number;
  #busy = false;
  #clearing = false;
  #tokens: readonly Token[] = [];
  /** The lengths of the beginnings of the cache of which copies are kept. */
  #copies: readonly number[] = [];
  #isolation = "";
  #line: SlotLine | undefined;
  #affinityKey = "";
  #lastUsedMs = 0;
  #expiresAtMs = 0;

  /** Makes a free slot with an empty cache. */
  constructor(sequence: LlamaContextSequence, place: number) {
    this.sequence = sequence;
    this.place = place;
  }

  /** Whether a request holds the slot. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Whether the cache of the slot is being emptied. It is for good where the library failed to. */
  get clearing(): boolean {
    return this.#clearing;
  }

  /** Whether a request can have the slot. */
  get free(): boolean {
    return !this.#busy && !this.#clearing;
  }

  /** Whether the cache of the slot holds nothing. */
  get empty(): boolean {
    return this.#tokens.length === 0;
  }

  /** The number of tokens whose cache can be reused; of a slot in use, as it was before. */
  get cachedTokens(): number {
    return this.#tokens.length;
  }

  /** The places that digests name in what the cache holds; undefined where nobody is to be told of them. */
  get line(): SlotLine | undefined {
    return this.#line;
  }

  /**
   * The number of tokens up to the end of the newest prompt's last message, all of which the next turn of the conversation
   * begins with; Infinity where nobody has told of it.
   */
  get promptTokens(): number {
    return this.#line?.places.at(-1)?.tokens || Number.POSITIVE_INFINITY;
  }

  /** The name that the caller gave the conversation in the slot; "" when it gave none. */
  get affinityKey(): string {
    return this.#affinityKey;
  }

  /** The moment at which the slot was last given back, in milliseconds of the clock of `release`; 0 if never. */
  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  /**
   * The moment until which the cache is meant to be kept, in milliseconds of the clock of `release`. Another request
   * that needs the room ends it earlier.
   */
  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  /** Gives the slot to a request with this affinity key; "" when it has none. */
  take(affinityKey: string): void {
    this.#busy = true;
    this.#affinityKey = affinityKey;
  }

  /**
   * Returns how many tokens from the start the cache has in common with a prompt, as far as one can go on from there; 0 in
   * another isolation domain.
   */
  commonPrefix(prompt: readonly Token[], isolation: string): number {
    return this.#usable(prompt, isolation, prompt.length);
  }

  /**
   * Returns how many tokens of a prompt need no evaluation as the cache has them. The last one is always evaluated anew,
   * as that gives the first token of the answer.
   */
  reusable({ prompt, isolation }: SlotPrompt): number {
    return this.#usable(prompt, isolation, prompt.length - 1);
  }

  /**
   * Returns how much of the first `tokens` tokens of the cache is there for a prompt that goes on differently. Models some of
   * whose layers remember what they have read in one state go on from the end of the cache, or from where a copy was kept.
   */
  usable(tokens: number): number {
    if (!this.sequence.needsCheckpoints || tokens === this.#tokens.length) return tokens;
    return Math.max(0, ...this.#copies.filter((length) => length <= tokens));
  }

  #usable(prompt: readonly Token[], isolation: string, most: number): number {
    return isolation === this.#isolation ? this.usable(Math.min(most, commonLength(prompt, this.#tokens))) : 0;
  }

  /**
   * Returns behind how many tokens of a prompt a copy of the cache is to be kept, where the next turn will go on: at the end
   * of its last message, as far as that is known. 0 where the cache can be cut anywhere.
   */
  copyBehind({ prompt, line }: SlotPrompt): number {
    if (!this.sequence.needsCheckpoints) return 0;
    return Math.min(line?.places.at(-1)?.tokens || prompt.length, prompt.length - 1);
  }

  /** Keeps a copy of the cache as it is. */
  async keepCopy(): Promise<void> {
    const length = this.sequence.nextTokenIndex;
    await this.sequence.takeCheckpoint();
    this.#copies = [...this.#copies.filter((other) => other !== length), length].slice(-KEPT_COPIES);
  }

  /** Returns whether all that the cache holds is a true prefix of the prompt, so that adapting to it changes nothing. */
  fits(wish: SlotPrompt): boolean {
    const held = this.sequence.nextTokenIndex;
    return held === 0 || held === this.reusable(wish);
  }

  /**
   * Makes the cache a true prefix of the prompt. Resolves to its length, which is what `reusable` says, or less where the
   * library cannot keep so much.
   */
  async adapt(wish: SlotPrompt): Promise<number> {
    const { prompt, isolation, line } = wish;
    const held = this.sequence.nextTokenIndex;
    const length = this.reusable(wish);
    this.#isolation = isolation;
    this.#line = line;
    if (held === 0 || held === length) return held;
    const wanted = prompt.slice(0, length);
    if (wanted.length === 0) {
      await this.#empty();
      return 0;
    }
    // Without `false` it would also keep later pieces and move them, which gives other results.
    await this.sequence.adaptStateToTokens(wanted, false);
    const kept = this.sequence.contextTokens;
    this.#copies = this.#copies.filter((length) => length <= kept.length);
    if (kept.length <= wanted.length && kept.every((token, index) => token === wanted[index])) return kept.length;
    await this.#empty();
    return 0;
  }

  async #empty(): Promise<void> {
    this.#copies = [];
    await this.sequence.clearHistory();
  }

  /** Frees the slot and keeps its cache. */
  release(nowMs: number, expiresAtMs: number): void {
    this.#tokens = this.sequence.contextTokens;
    this.#lastUsedMs = nowMs;
    this.#expiresAtMs = expiresAtMs;
    this.#busy = false;
  }

  /** Takes the slot from the request that holds it, if one does. Nobody can have it until it is cleared. */
  retire(): void {
    this.#busy = false;
    this.#clearing = true;
    this.#tokens = [];
    this.#line = undefined;
    this.#affinityKey = "";
  }

  /** Empties the cache of a slot that is retired, which is free afterwards. */
  async clear(): Promise<void> {
    await this.#empty();
    this.#clearing = false;
  }
}
