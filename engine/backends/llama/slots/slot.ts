import type { LlamaContextSequence, Token } from "node-llama-cpp";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import { commonLength } from "./common-length.ts";
import { KEPT_COPIES } from "./kept-copies.ts";

export type SlotPrompt = {
  readonly prompt: readonly Token[];
  /** The isolation domain of the request: only caches of the same domain are reused. */
  readonly isolation: string;
  /** The positions that digests name in the prompt. Absent if the request has no digests. */
  readonly line?: SlotLine | undefined;
};

/** A slot: one sequence of the context with its part of the KV cache. */
export class Slot {
  readonly sequence: LlamaContextSequence;
  /** The index of the sequence in the context, from 0. */
  readonly place: number;
  #busy = false;
  #clearing = false;
  #tokens: readonly Token[] = [];
  /** The lengths of the cache prefixes of which copies are kept. */
  #copies: readonly number[] = [];
  #isolation = "";
  #line: SlotLine | undefined;
  #affinityKey = "";
  #lastUsedMs = 0;
  #expiresAtMs = 0;

  constructor(sequence: LlamaContextSequence, place: number) {
    this.sequence = sequence;
    this.place = place;
  }

  get busy(): boolean {
    return this.#busy;
  }

  /** Whether the cache of the slot is being emptied; forever if the library failed to. */
  get clearing(): boolean {
    return this.#clearing;
  }

  get free(): boolean {
    return !this.#busy && !this.#clearing;
  }

  get empty(): boolean {
    return this.#tokens.length === 0;
  }

  /** The number of reusable tokens; for a busy slot, those before it was taken. */
  get cachedTokens(): number {
    return this.#tokens.length;
  }

  /** The positions that digests name in the cache; undefined if the request had no digests. */
  get line(): SlotLine | undefined {
    return this.#line;
  }

  /**
   * The number of tokens up to the end of the newest prompt's last message, with all of which the next turn of the
   * conversation begins; Infinity if unknown.
   */
  get promptTokens(): number {
    return this.#line?.places.at(-1)?.tokens || Number.POSITIVE_INFINITY;
  }

  /** The caller's name for the conversation in the slot; "" if none was given. */
  get affinityKey(): string {
    return this.#affinityKey;
  }

  /** The time of the last release, in milliseconds of the clock of `release`; 0 if never. */
  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  /**
   * The time until which the cache should be kept, in milliseconds of the clock of `release`. It may be evicted
   * earlier.
   */
  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  /** Assigns the slot to a request with this affinity key; "" for none. */
  take(affinityKey: string): void {
    this.#busy = true;
    this.#affinityKey = affinityKey;
  }

  /** Returns the length of the reusable common prefix of the cache and a prompt; 0 in another isolation domain. */
  commonPrefix(prompt: readonly Token[], isolation: string): number {
    return this.#usable(prompt, isolation, prompt.length);
  }

  /**
   * Returns the number of prompt tokens that need no evaluation because they are cached. The last one is always
   * evaluated, as that samples the first token of the answer.
   */
  reusable({ prompt, isolation }: SlotPrompt): number {
    return this.#usable(prompt, isolation, prompt.length - 1);
  }

  /**
   * Returns how many of the first `tokens` tokens of the cache a prompt that diverges after them can reuse. Models with
   * recurrent layers can only continue from the end of the cache, or from a kept copy.
   */
  usable(tokens: number): number {
    if (!this.sequence.needsCheckpoints || tokens === this.#tokens.length) return tokens;
    return Math.max(0, ...this.#copies.filter((length) => length <= tokens));
  }

  #usable(prompt: readonly Token[], isolation: string, most: number): number {
    return isolation === this.#isolation ? this.usable(Math.min(most, commonLength(prompt, this.#tokens))) : 0;
  }

  /**
   * Returns the number of prompt tokens after which a copy of the cache is kept for the next turn: the end of the last
   * message, if known. 0 if the cache can be cut anywhere.
   */
  copyBehind({ prompt, line }: SlotPrompt): number {
    if (!this.sequence.needsCheckpoints) return 0;
    return Math.min(line?.places.at(-1)?.tokens || prompt.length, prompt.length - 1);
  }

  async keepCopy(): Promise<void> {
    const length = this.sequence.nextTokenIndex;
    await this.sequence.takeCheckpoint();
    this.#copies = [...this.#copies.filter((other) => other !== length), length].slice(-KEPT_COPIES);
  }

  /** Returns whether the whole cache is a proper prefix of the prompt, so that `adapt` changes nothing. */
  fits(wish: SlotPrompt): boolean {
    const held = this.sequence.nextTokenIndex;
    return held === 0 || held === this.reusable(wish);
  }

  /**
   * Cuts the cache to a proper prefix of the prompt. Resolves to its length: that of `reusable`, or less if the library
   * cannot keep so much.
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
    // Without `false` the library also keeps and shifts later parts, which changes results.
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

  release(nowMs: number, expiresAtMs: number): void {
    this.#tokens = this.sequence.contextTokens;
    this.#lastUsedMs = nowMs;
    this.#expiresAtMs = expiresAtMs;
    this.#busy = false;
  }

  /** Takes the slot from the request that holds it, if any. It stays out of use until it is cleared. */
  retire(): void {
    this.#busy = false;
    this.#clearing = true;
    this.#tokens = [];
    this.#line = undefined;
    this.#affinityKey = "";
  }

  /** Empties the cache of a retired slot, which is free afterwards. */
  async clear(): Promise<void> {
    await this.#empty();
    this.#clearing = false;
  }
}
