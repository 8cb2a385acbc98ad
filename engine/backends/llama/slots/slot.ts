import type { LlamaContextSequence, Token } from "node-llama-cpp";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import { commonLength } from "./common-length.ts";
import { KEPT_COPIES } from "./kept-copies.ts";

export type SlotPrompt = {
  readonly prompt: readonly Token[];
  /** The isolation domain of the request: only caches of the same domain are reused. */
  readonly isolation: string;
  readonly line?: SlotLine | undefined;
};

export class Slot {
  readonly sequence: LlamaContextSequence;
  readonly place: number;
  #busy = false;
  #clearing = false;
  #tokens: readonly Token[] = [];
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

  get line(): SlotLine | undefined {
    return this.#line;
  }

  /** Tokens up to the end of the newest prompt's last message, where the next turn begins; Infinity if unknown. */
  get promptTokens(): number {
    return this.#line?.places.at(-1)?.tokens || Number.POSITIVE_INFINITY;
  }

  get affinityKey(): string {
    return this.#affinityKey;
  }

  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  take(affinityKey: string): void {
    this.#busy = true;
    this.#affinityKey = affinityKey;
  }

  commonPrefix(prompt: readonly Token[], isolation: string): number {
    return this.#usable(prompt, isolation, prompt.length);
  }

  /** The last prompt token is always evaluated, as that samples the first token of the answer. */
  reusable({ prompt, isolation }: SlotPrompt): number {
    return this.#usable(prompt, isolation, prompt.length - 1);
  }

  /** Models with recurrent layers can only continue from the end of the cache, or from a kept copy. */
  usable(tokens: number): number {
    if (!this.sequence.needsCheckpoints || tokens === this.#tokens.length) return tokens;
    return Math.max(0, ...this.#copies.filter((length) => length <= tokens));
  }

  #usable(prompt: readonly Token[], isolation: string, most: number): number {
    return isolation === this.#isolation ? this.usable(Math.min(most, commonLength(prompt, this.#tokens))) : 0;
  }

  /** The prompt tokens after which a copy is kept for the next turn; 0 if the cache can be cut anywhere. */
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

  /** Cuts the cache to a proper prefix of the prompt. Resolves to its length, at most that of `reusable`. */
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

  async clear(): Promise<void> {
    await this.#empty();
    this.#clearing = false;
  }
}
