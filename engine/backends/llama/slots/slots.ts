import type { LlamaContextSequence, Token } from "node-llama-cpp";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { HeldPrefixes } from "../../../prefixes/held-prefixes.ts";
import { type SlotLine, SlotPrefixes } from "../../../prefixes/slot-prefixes.ts";
import type { Steps } from "./steps.ts";

/** Copies of a cache that cannot be cut, for repeated or edited turns; one takes tens of megabytes. */
export const KEPT_COPIES = 3;

export function commonLength<Element>(one: readonly Element[], other: readonly Element[]): number {
  const most = Math.min(one.length, other.length);
  let count = 0;
  while (count < most && one[count] === other[count]) count += 1;
  return count;
}

export type SlotPrompt = {
  readonly prompt: readonly Token[];
  /** The isolation domain of the request: only caches of the same domain are reused. */
  readonly isolation: string;
  readonly line?: SlotLine | undefined;
};

export class Slot {
  readonly sequence: LlamaContextSequence;
  readonly place: number;
  busy = false;
  /** Whether the cache of the slot is being emptied; forever if the library failed to. */
  clearing = false;
  #tokens: readonly Token[] = [];
  #copies: readonly number[] = [];
  #isolation = "";
  line: SlotLine | undefined;
  affinityKey = "";
  lastUsedMs = 0;
  expiresAtMs = 0;

  constructor(sequence: LlamaContextSequence, place: number) {
    this.sequence = sequence;
    this.place = place;
  }

  get free(): boolean {
    return !this.busy && !this.clearing;
  }

  get empty(): boolean {
    return this.#tokens.length === 0;
  }

  /** The number of reusable tokens; for a busy slot, those before it was taken. */
  get cachedTokens(): number {
    return this.#tokens.length;
  }

  /** Tokens up to the end of the newest prompt's last message, where the next turn begins; Infinity if unknown. */
  get promptTokens(): number {
    return this.line?.places.at(-1)?.tokens || Number.POSITIVE_INFINITY;
  }

  take(affinityKey: string): void {
    this.busy = true;
    this.affinityKey = affinityKey;
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
    this.line = line;
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
    this.lastUsedMs = nowMs;
    this.expiresAtMs = expiresAtMs;
    this.busy = false;
  }

  /** Takes the slot from the request that holds it, if any. It stays out of use until it is cleared. */
  retire(): void {
    this.busy = false;
    this.clearing = true;
    this.#tokens = [];
    this.line = undefined;
    this.affinityKey = "";
  }

  async clear(): Promise<void> {
    await this.#empty();
    this.clearing = false;
  }
}

/** The longest delay of a Node timer, in milliseconds. Callers can request at most a day. */
const MAX_TIMER_MS = 2_147_483_647;

/** The shortest common prefix for which another conversation's cache is reused, in tokens. */
const MIN_PREFIX_TOKENS = 32;

export type Demand = SlotPrompt & {
  readonly affinityKey: string;
};

type SlotsOptions = {
  readonly sequences: readonly LlamaContextSequence[];
  readonly steps: Steps;
  readonly held: HeldPrefixes;
  readonly clock: Clock;
  readonly onFree: () => void;
};

/**
 * Assigns slots to requests and evicts caches. One slot more than may be in use is kept empty, so that a new
 * conversation starts at once.
 */
export class Slots {
  readonly #slots: readonly Slot[];
  readonly #steps: Steps;
  readonly #clock: Clock;
  readonly #onFree: () => void;
  readonly #prefixes: SlotPrefixes<Slot>;
  readonly #timers = new Map<Slot, () => void>();
  /** The idle time of the last cache that was evicted before its time, in milliseconds; undefined if none was. */
  retentionMs: number | undefined;

  constructor(options: SlotsOptions) {
    this.#slots = options.sequences.map((sequence, place) => new Slot(sequence, place));
    this.#prefixes = new SlotPrefixes(options.held);
    this.#steps = options.steps;
    this.#clock = options.clock;
    this.#onFree = options.onFree;
  }

  get count(): number {
    return this.#slots.length - 1;
  }

  get busy(): number {
    return this.#slots.filter((slot) => slot.busy).length;
  }

  get tokensInUse(): number {
    return this.#slots.reduce((sum, { busy, sequence }) => sum + (busy ? sequence.nextTokenIndex : 0), 0);
  }

  get tokensHeld(): number {
    return this.#slots.reduce((sum, { sequence }) => sum + sequence.nextTokenIndex, 0);
  }

  uncachedTokens({ prompt, isolation }: Demand): number {
    return prompt.length - Math.max(0, ...this.#slots.map((slot) => slot.commonPrefix(prompt, isolation)));
  }

  take(demand: Demand): Slot | undefined {
    if (this.busy >= this.count) return undefined;
    const nowMs = this.#clock.nowMs();
    const slot = chooseSlot(this.#slots, demand, nowMs);
    if (!slot) return undefined;
    // Reusing a common prefix does not evict the other caches, however long they have been idle.
    const isFirst = slot === firstToGo(oldestFirst(this.#slots), nowMs);
    const isLost = slot.commonPrefix(demand.prompt, demand.isolation) < slot.cachedTokens / 2;
    if (isFirst && isLost) this.#notePushedOut(slot, nowMs);
    slot.take(demand.affinityKey);
    // No request waits for a busy slot, so that its cache is not reusable.
    this.#prefixes.holdsNothing(slot);
    this.#stopTimer(slot);
    this.#makeRoom(nowMs);
    return slot;
  }

  /** Releases a slot. Its cache stays for `keepMs` milliseconds unless it is evicted. */
  release(slot: Slot, keepMs: number): void {
    const nowMs = this.#clock.nowMs();
    slot.release(nowMs, nowMs + keepMs);
    if (slot.line) this.#prefixes.holds(slot, usableLine(slot, slot.line), slot.cachedTokens);
    this.#stopTimer(slot);
    this.#timers.set(
      slot,
      this.#clock.after(Math.min(keepMs, MAX_TIMER_MS), () => void this.discard(slot)),
    );
    this.#onFree();
  }

  /** Never rejects. A slot whose sequence cannot be cleared stays out of use. */
  async discard(slot: Slot): Promise<void> {
    this.#stopTimer(slot);
    this.#prefixes.holdsNothing(slot);
    slot.retire();
    try {
      await this.#steps.change(() => slot.clear());
    } catch {
      return;
    }
    this.#onFree();
  }

  close(): void {
    for (const slot of this.#slots) this.#stopTimer(slot);
  }

  #makeRoom(nowMs: number): void {
    if (this.#slots.some((slot) => slot.clearing || (slot.free && slot.empty))) return;
    const first = firstToGo(oldestFirst(this.#slots), nowMs);
    if (!first) return;
    this.#notePushedOut(first, nowMs);
    void this.discard(first);
  }

  #notePushedOut(slot: Slot, nowMs: number): void {
    if (!slot.empty && slot.expiresAtMs > nowMs) this.retentionMs = nowMs - slot.lastUsedMs;
  }

  #stopTimer(slot: Slot): void {
    this.#timers.get(slot)?.();
    this.#timers.delete(slot);
  }
}

function usableLine(slot: Slot, { model, places }: SlotLine): SlotLine {
  return { model, places: places.map(({ digest, tokens }) => ({ digest, tokens: slot.usable(tokens) })) };
}

/**
 * Chooses a free slot; undefined if there is none. First the longest common prefix, if that is the whole cache, or at
 * least 32 tokens and half of the prompt (any length with the same affinity key); then an empty slot, an expired one,
 * the least recently used. Among prefixes at most 31 tokens shorter than the longest, the conversation that the prompt
 * continues is preferred: so few tokens are not worth evicting a newer one.
 */
function chooseSlot(slots: readonly Slot[], demand: Demand, nowMs: number): Slot | undefined {
  const free = oldestFirst(slots);
  const { prompt, isolation, affinityKey } = demand;
  const useful: { readonly slot: Slot; readonly length: number }[] = [];
  let longest = 0;
  for (const slot of free) {
    const length = slot.commonPrefix(prompt, isolation);
    const isSame = affinityKey !== "" && slot.affinityKey === affinityKey;
    const isWorth = length >= MIN_PREFIX_TOKENS && (length >= prompt.length / 2 || isSame);
    // Using the whole cache evicts nothing.
    if (length === 0 || !(isWorth || length === slot.cachedTokens)) continue;
    useful.push({ slot, length });
    longest = Math.max(longest, length);
  }
  const best = useful.filter(({ length }) => length > longest - MIN_PREFIX_TOKENS);
  const own = best.filter(({ slot, length }) => length >= Math.min(slot.cachedTokens, slot.promptTokens));
  const chosen = own.toSorted((one, other) => other.length - one.length)[0] ?? best[0];
  return chosen?.slot ?? free.find((slot) => slot.empty) ?? firstToGo(free, nowMs);
}

/** Returns the free slots, least recently used first; ties go to the smallest cache. */
function oldestFirst(slots: readonly Slot[]): readonly Slot[] {
  return slots
    .filter(({ free }) => free)
    .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs || a.cachedTokens - b.cachedTokens);
}

function firstToGo(free: readonly Slot[], nowMs: number): Slot | undefined {
  return free.find(({ expiresAtMs }) => expiresAtMs <= nowMs) ?? free[0];
}
