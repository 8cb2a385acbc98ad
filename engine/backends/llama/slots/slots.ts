import type { LlamaContextSequence } from "node-llama-cpp";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { HeldPrefixes } from "../../../prefixes/held-prefixes.ts";
import { type SlotLine, SlotPrefixes } from "../../../prefixes/slot-prefixes.ts";
import { Slot, type SlotPrompt } from "./slot.ts";
import type { Steps } from "./steps.ts";

/** The longest delay that a timer of Node can hold, in milliseconds; nobody may ask for more than a day anyway. */
const MAX_TIMER_MS = 2_147_483_647;

/** The shortest common beginning that is worth another conversation's cache, in tokens. */
const MIN_PREFIX_TOKENS = 32;

/** The demand that a request has of a slot. */
export type Demand = SlotPrompt & {
  /** The caller's name for the conversation; "" when it gave none. */
  readonly affinityKey: string;
};

/** What the slots of an engine are made of. */
export type SlotsOptions = {
  /** The sequences of the context in their order, two at least: one more than requests have a slot at once. */
  readonly sequences: readonly LlamaContextSequence[];
  /** Runs what empties a cache. */
  readonly steps: Steps;
  /** Told which prefixes the slots hold that no request has. */
  readonly held: HeldPrefixes;
  /** Measures how long caches stay. */
  readonly clock: Clock;
  /** Called when a slot has become free. */
  readonly onFree: () => void;
};

/**
 * Keeps all slots of the engine. It decides which one a request gets, and how long a cache stays.
 *
 * There is one slot more than requests may have at once. It is there to be empty: a newcomer takes it and computes at
 * once, and the cache that has to give way to the newcomer's is cleared meanwhile, so that a slot is empty for the next.
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

  /** The number of slots that requests may hold at once. */
  get count(): number {
    return this.#slots.length - 1;
  }

  /** The number of slots that requests hold. */
  get busy(): number {
    return this.#slots.filter((slot) => slot.busy).length;
  }

  /** The number of tokens in the KV memory that running requests hold. */
  get tokensInUse(): number {
    return this.#slots.reduce((sum, { busy, sequence }) => sum + (busy ? sequence.nextTokenIndex : 0), 0);
  }

  /** The number of tokens in the KV memory, those of caches that no request has among them. */
  get tokensHeld(): number {
    return this.#slots.reduce((sum, { sequence }) => sum + sequence.nextTokenIndex, 0);
  }

  /**
   * The time for which the cache had lain, in milliseconds, that another conversation last pushed out before its time;
   * undefined while that has not happened.
   */
  get retentionMs(): number | undefined {
    return this.#retentionMs;
  }

  /** Returns how many tokens of the prompt are in no cache that the request may use. */
  uncachedTokens({ prompt, isolation }: Demand): number {
    return prompt.length - Math.max(0, ...this.#slots.map((slot) => slot.commonPrefix(prompt, isolation)));
  }

  /** Takes a slot for the request; undefined when as many are busy as may be. */
  take(demand: Demand): Slot | undefined {
    if (this.busy >= this.count) return undefined;
    const nowMs = this.#clock.nowMs();
    const slot = chooseSlot(this.#slots, demand, nowMs);
    if (!slot) return undefined;
    // Whoever takes a cache for the beginning that it has in common leaves the others as they are, however long they lie.
    const isFirst = slot === firstToGo(oldestFirst(this.#slots), nowMs);
    const isLost = slot.commonPrefix(demand.prompt, demand.isolation) < slot.cachedTokens / 2;
    if (isFirst && isLost) this.#notePushedOut(slot, nowMs);
    slot.take(demand.affinityKey);
    // A busy slot is never waited for, so that nobody can use what it holds.
    this.#prefixes.holdsNothing(slot);
    this.#stopTimer(slot);
    this.#makeRoom(nowMs);
    return slot;
  }

  /** Gives a slot back. Its cache stays for `keepMs` milliseconds unless the room is needed. */
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
   * Empties a slot, which is taken from the request that holds it where one does. A slot whose sequence cannot be cleared
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

  /** Stops the timers that end caches. */
  close(): void {
    for (const slot of this.#slots) this.#stopTimer(slot);
  }

  /** Clears the cache that gives way first where no slot is empty, or about to be. */
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

/** Returns the places of a line, each with the tokens in the slot that are there for a prompt which goes on from it. */
function usableLine(slot: Slot, { model, places }: SlotLine): SlotLine {
  return { model, places: places.map(({ digest, tokens }) => ({ digest, tokens: slot.usable(tokens) })) };
}

/**
 * Chooses among the free slots; undefined when there is none. First comes the slot that has the most of the prompt, if
 * that is all the slot has, or at least 32 tokens and half of the prompt (any part of it in a slot of the same affinity
 * key); else an empty one; else one whose time is over; else the one that was used longest ago. Of several that have
 * nearly the most, up to 31 tokens less, it takes the one whose conversation the prompt goes on with, although the next
 * turn may leave out what the model has reasoned, or else the one that was used longest ago: so few tokens are not worth
 * a newer conversation. Of equals it takes the one with the smallest cache. A busy slot is never waited for.
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
    // Where all of the cache is used nothing is lost.
    if (length === 0 || !(isWorth || length === slot.cachedTokens)) continue;
    useful.push({ slot, length });
    longest = Math.max(longest, length);
  }
  const best = useful.filter(({ length }) => length > longest - MIN_PREFIX_TOKENS);
  const own = best.filter(({ slot, length }) => length >= Math.min(slot.cachedTokens, slot.promptTokens));
  const chosen = own.toSorted((one, other) => other.length - one.length)[0] ?? best[0];
  return chosen?.slot ?? free.find((slot) => slot.empty) ?? firstToGo(free, nowMs);
}

/** Returns the free slots, the one that was used longest ago first, and of equals the one with the smallest cache. */
function oldestFirst(slots: readonly Slot[]): readonly Slot[] {
  return slots
    .filter(({ free }) => free)
    .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs || a.cachedTokens - b.cachedTokens);
}

/** Returns the slot whose cache gives way first: one whose time is over, else the first of the free ones. */
function firstToGo(free: readonly Slot[], nowMs: number): Slot | undefined {
  return free.find(({ expiresAtMs }) => expiresAtMs <= nowMs) ?? free[0];
}
