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

/**
 * When the next turn of a conversation comes: `soon` behind a call, whose tool runs; `later` where a person has to write;
 * `never` for a request that only the agent's own interface asked for.
 */
export type Returns = "soon" | "later" | "never";

/**
 * How much earlier a cache goes that a person has to come back to, in milliseconds. In recorded sessions the median pause is
 * 210 s behind an answer, and 8 s behind a call.
 */
const PERSON_MS = 600_000;
/** How much later a cache goes whose caller holds a connection open for the next turn. */
const LEASE_MS = 3_600_000;

export class Slot {
  readonly sequence: LlamaContextSequence;
  readonly place: number;
  busy = false;
  /** Whether the cache of the slot is being emptied; forever if the library failed to. */
  clearing = false;
  #tokens: readonly Token[] = [];
  #copies: readonly number[] = [];
  #isolation = "";
  /** Tokens up to the end of the newest prompt's last message, behind which the next turn begins. */
  #promptTokens = 0;
  line: SlotLine | undefined;
  affinityKey = "";
  lastUsedMs = 0;
  returns: Returns = "later";
  leased = false;
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

  /** The order in which caches go, those with the least first, in milliseconds. */
  get worthMs(): number {
    if (this.returns === "never") return Number.NEGATIVE_INFINITY;
    if (this.leased) return this.lastUsedMs + LEASE_MS;
    return this.returns === "soon" ? this.lastUsedMs : this.lastUsedMs - PERSON_MS;
  }

  /** The number of reusable tokens; for a busy slot, those before it was taken. */
  get cachedTokens(): number {
    return this.#tokens.length;
  }

  /** The evaluated tokens in the cache. */
  get #held(): readonly Token[] {
    return this.busy ? this.sequence.contextTokens : this.#tokens;
  }

  /** Whether the prompt holds the whole cache, or all of its newest prompt: so its next turn does, or a repeated one. */
  isContinuedBy({ prompt, isolation }: SlotPrompt): boolean {
    const length = this.commonPrefix(prompt, isolation);
    return length > 0 && length >= Math.min(this.cachedTokens, this.#promptTokens);
  }

  /** Whether the prompt is of this conversation, by its key and first message. */
  isNamedBy(demand: Demand): boolean {
    const firstMessageEnd = this.line?.places[1]?.tokens || Number.POSITIVE_INFINITY;
    const isSame = demand.affinityKey !== "" && demand.affinityKey === this.affinityKey;
    return isSame && this.reusable(demand) >= firstMessageEnd;
  }

  take(affinityKey: string): void {
    this.busy = true;
    this.returns = "later";
    this.leased = false;
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
    if (!this.sequence.needsCheckpoints || tokens === this.sequence.nextTokenIndex) return tokens;
    return Math.max(0, ...this.#copies.filter((length) => length <= tokens));
  }

  #usable(prompt: readonly Token[], isolation: string, most: number): number {
    return isolation === this.#isolation ? this.usable(Math.min(most, commonLength(prompt, this.#held))) : 0;
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

  /** Replaces the cache by a copy of another slot's, which may be busy. Between two rounds only. */
  async copyFrom(other: Slot, copy: CopyCache): Promise<void> {
    await this.#empty();
    this.#isolation = other.#isolation;
    if (await copy(this.sequence, other.sequence)) this.#copies = other.#copies;
    else await this.#empty();
  }

  /** Cuts the cache to a proper prefix of the prompt. Resolves to its length, at most that of `reusable`. */
  async adapt(wish: SlotPrompt): Promise<number> {
    const { prompt, isolation, line } = wish;
    const held = this.sequence.nextTokenIndex;
    const length = this.reusable(wish);
    this.#isolation = isolation;
    this.#promptTokens = line?.places.at(-1)?.tokens || prompt.length - 1;
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

/**
 * A copy saves at least a token for each 256 of the window. llama.cpp copies the memory of a whole window, which took as long
 * as reading a token for each 500 to 2,000 of it (measured on a CPU), and all streams wait meanwhile.
 */
const COPIED_WINDOW = 256;

/** Copies the whole cache of a sequence to an empty one. Resolves to whether it is complete. */
export type CopyCache = (to: LlamaContextSequence, from: LlamaContextSequence) => Promise<boolean>;

export type Demand = SlotPrompt & {
  readonly affinityKey: string;
};

type SlotsOptions = {
  readonly sequences: readonly LlamaContextSequence[];
  readonly copy: CopyCache;
  readonly steps: Steps;
  readonly held: HeldPrefixes;
  readonly clock: Clock;
  readonly onFree: () => void;
};

/**
 * Assigns slots to requests and evicts caches. A slot holds one conversation. A new one gets an empty slot, and a copy of
 * what it has in common with another. One slot more than may be in use is kept empty: a copy needs it before anything is
 * evicted, and the decoder moves caches through it.
 */
export class Slots {
  readonly #slots: readonly Slot[];
  readonly #copy: CopyCache;
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
    this.#copy = options.copy;
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

  /** The number of slots with a cache that may not go yet. */
  get inUse(): number {
    const nowMs = this.#clock.nowMs();
    const used = this.#slots.filter(({ busy, empty, expiresAtMs }) => busy || (!empty && expiresAtMs > nowMs));
    return Math.min(this.count, used.length);
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

  /** Takes a free slot, if any, whose cache is as it was until `adapt`. */
  take(demand: Demand): Slot | undefined {
    if (this.busy >= this.count) return undefined;
    const nowMs = this.#clock.nowMs();
    const free = leastWorthFirst(this.#slots);
    const slot = chooseSlot(free, demand) ?? firstToGo(free, nowMs);
    if (!slot) return undefined;
    if (!slot.isContinuedBy(demand)) this.#notePushedOut(slot, nowMs);
    slot.take(demand.affinityKey);
    this.#stopTimer(slot);
    return slot;
  }

  /**
   * Brings the cache of a taken slot to a proper prefix of the prompt: to what it has of it, or a copy of what another one
   * has. Resolves to its length.
   */
  async adapt(slot: Slot, demand: Demand): Promise<number> {
    // Without a change of the cache there is no need to wait for the end of a round.
    const isFit = slot.fits(demand) && !this.#sourceFor(slot, demand);
    const length = await (isFit ? slot.adapt(demand) : this.#steps.change(() => this.#adapt(slot, demand)));
    this.announce(slot);
    this.#evictIdle(this.#clock.nowMs());
    return length;
  }

  async #adapt(slot: Slot, demand: Demand): Promise<number> {
    const source = this.#sourceFor(slot, demand);
    if (source) {
      // A conversation that has been edited, or whose template leaves earlier reasoning out, goes on in its copy.
      if (source.free && source.isNamedBy(demand)) source.expiresAtMs = this.#clock.nowMs();
      await slot.copyFrom(source, this.#copy);
    }
    return slot.adapt(demand);
  }

  /** Returns the slot with the longest part of the prompt, if that is worth a copy. */
  #sourceFor(slot: Slot, demand: Demand): Slot | undefined {
    let source: Slot | undefined;
    let least = slot.reusable(demand) + slot.sequence.contextSize / COPIED_WINDOW;
    for (const other of this.#slots) {
      const length = other === slot ? 0 : other.reusable(demand);
      if (length < least) continue;
      source = other;
      least = length + 1;
    }
    return source;
  }

  /** Announces what of the line of a slot its cache holds. */
  announce(slot: Slot): void {
    if (slot.line) this.#prefixes.holds(slot, usableLine(slot, slot.line), slot.sequence.nextTokenIndex);
    else this.#prefixes.holdsNothing(slot);
  }

  /** Releases a slot. Its cache stays for `keepMs` milliseconds unless it is evicted. */
  release(slot: Slot, keepMs: number): void {
    const nowMs = this.#clock.nowMs();
    slot.release(nowMs, nowMs + keepMs);
    this.announce(slot);
    this.#stopTimer(slot);
    this.#timers.set(
      slot,
      this.#clock.after(Math.min(keepMs, MAX_TIMER_MS), () => void this.discard(slot)),
    );
    this.#onFree();
  }

  /** Has the cache go first whose last prompt ends at a digest; a copy may still be taken of it. */
  endLease(digest: string): void {
    for (const slot of this.#slots) {
      if (!slot.leased || slot.line?.places.at(-1)?.digest !== digest) continue;
      slot.leased = false;
      if (slot.free) slot.expiresAtMs = this.#clock.nowMs();
    }
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

  #evictIdle(nowMs: number): void {
    if (this.#slots.some((slot) => slot.clearing || (slot.free && slot.empty))) return;
    const first = firstToGo(leastWorthFirst(this.#slots), nowMs);
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

/** Returns the free slot that the prompt continues, with the longest part of it, or else an empty one. */
function chooseSlot(free: readonly Slot[], demand: Demand): Slot | undefined {
  const lengthIn = (slot: Slot) => slot.commonPrefix(demand.prompt, demand.isolation);
  const own = free.filter((slot) => slot.isContinuedBy(demand));
  return own.toSorted((one, other) => lengthIn(other) - lengthIn(one))[0] ?? free.find(({ empty }) => empty);
}

/** Returns the free slots, those that are worth least first; ties go to the smallest cache. */
function leastWorthFirst(slots: readonly Slot[]): readonly Slot[] {
  return slots
    .filter(({ free }) => free)
    .toSorted((a, b) => compared(a.worthMs, b.worthMs) || a.cachedTokens - b.cachedTokens);
}

function compared(one: number, other: number): number {
  return one === other ? 0 : one - other;
}

/** Returns the slot whose cache goes first: an expired one, else the one that is worth least. */
function firstToGo(free: readonly Slot[], nowMs: number): Slot | undefined {
  return free.find(({ expiresAtMs }) => expiresAtMs <= nowMs) ?? free[0];
}
