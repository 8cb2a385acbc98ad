import type { LlamaContextSequence } from "node-llama-cpp";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { HeldPrefixes } from "../../../prefixes/held-prefixes.ts";
import { type SlotLine, SlotPrefixes } from "../../../prefixes/slot-prefixes.ts";
import { Slot, type SlotPrompt } from "./slot.ts";
import type { Steps } from "./steps.ts";

/** The longest delay of a Node timer, in milliseconds. Callers can request at most a day. */
const MAX_TIMER_MS = 2_147_483_647;

/** The shortest common prefix for which another conversation's cache is reused, in tokens. */
const MIN_PREFIX_TOKENS = 32;

export type Demand = SlotPrompt & {
  readonly affinityKey: string;
};

export type SlotsOptions = {
  /** The sequences of the context in order, at least two: one more than slots in use at once. */
  readonly sequences: readonly LlamaContextSequence[];
  readonly steps: Steps;
  /** Receives the prefixes in free slots. */
  readonly held: HeldPrefixes;
  readonly clock: Clock;
  /** Called when a slot has become free. */
  readonly onFree: () => void;
};

/**
 * Manages the slots of the engine: assigns them to requests, and evicts caches.
 *
 * There is one slot more than requests may hold at once. It is kept empty: a new conversation starts in it at once,
 * while the cache that it evicts is cleared for the next one.
 */
export class Slots {
  readonly #slots: readonly Slot[];
  readonly #steps: Steps;
  readonly #clock: Clock;
  readonly #onFree: () => void;
  readonly #prefixes: SlotPrefixes<Slot>;
  readonly #timers = new Map<Slot, () => void>();
  #retentionMs: number | undefined;

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

  /** The number of KV cache tokens of running requests. */
  get tokensInUse(): number {
    return this.#slots.reduce((sum, { busy, sequence }) => sum + (busy ? sequence.nextTokenIndex : 0), 0);
  }

  /** The number of KV cache tokens, including those of free slots. */
  get tokensHeld(): number {
    return this.#slots.reduce((sum, { sequence }) => sum + sequence.nextTokenIndex, 0);
  }

  /** The idle time of the last cache that was evicted before its time, in milliseconds; undefined if none was. */
  get retentionMs(): number | undefined {
    return this.#retentionMs;
  }

  /** Returns the number of prompt tokens that no reusable cache holds. */
  uncachedTokens({ prompt, isolation }: Demand): number {
    return prompt.length - Math.max(0, ...this.#slots.map((slot) => slot.commonPrefix(prompt, isolation)));
  }

  /** Takes a slot for the request; undefined if all are in use. */
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

  /**
   * Empties a slot, which is taken from the request that holds it, if any. A slot whose sequence cannot be cleared
   * stays out of use. Never rejects.
   */
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

  /** Evicts the next cache unless a slot is empty or being emptied. */
  #makeRoom(nowMs: number): void {
    if (this.#slots.some((slot) => slot.clearing || (slot.free && slot.empty))) return;
    const first = firstToGo(oldestFirst(this.#slots), nowMs);
    if (!first) return;
    this.#notePushedOut(first, nowMs);
    void this.discard(first);
  }

  #notePushedOut(slot: Slot, nowMs: number): void {
    if (!slot.empty && slot.expiresAtMs > nowMs) this.#retentionMs = nowMs - slot.lastUsedMs;
  }

  #stopTimer(slot: Slot): void {
    this.#timers.get(slot)?.();
    this.#timers.delete(slot);
  }
}

/**
 * Returns the positions of a line, with the tokens of the slot that are reusable for a prompt that continues from each.
 */
function usableLine(slot: Slot, { model, places }: SlotLine): SlotLine {
  return { model, places: places.map(({ digest, tokens }) => ({ digest, tokens: slot.usable(tokens) })) };
}

/**
 * Chooses among the free slots; undefined if there is none. The first choice is the slot with the longest common
 * prefix, if that is its whole cache, or at least 32 tokens and half of the prompt (any length for a slot with the same
 * affinity key); then an empty slot; then an expired one; then the least recently used one. Among slots whose prefixes
 * are at most 31 tokens shorter than the longest, it prefers the one whose conversation the prompt continues, although
 * the next turn may leave out the reasoning, and else the least recently used one: so few tokens are not worth evicting
 * a newer conversation. Ties go to the smallest cache. Busy slots are not considered.
 */
export function chooseSlot(slots: readonly Slot[], demand: Demand, nowMs: number): Slot | undefined {
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

/** Returns the next slot to evict: an expired one, or the first of the free ones. */
function firstToGo(free: readonly Slot[], nowMs: number): Slot | undefined {
  return free.find(({ expiresAtMs }) => expiresAtMs <= nowMs) ?? free[0];
}
