import type { PrefixPlace } from "./block-prefixes.ts";
import type { HeldPrefixes } from "./held-prefixes.ts";

/** What a slot's cache holds, by the places that digests name in it. */
export type SlotLine = {
  /** The id of the model whose prompt it is. */
  readonly model: string;
  /** The places that digests name in the prompt, from the first to the last. */
  readonly places: readonly PrefixPlace[];
};

/** What one slot holds of a prefix. */
type Part = { readonly model: string; readonly tokens: number; readonly tailTokens: number };

/**
 * Ties prefixes to slots, each of which holds the tokens of one conversation from their beginning. A prefix that
 * several slots hold counts by the slot that has most of it.
 */
export class SlotPrefixes<Slot extends object> {
  readonly #held: HeldPrefixes;
  readonly #digests = new Map<Slot, readonly string[]>();
  /** What each slot has of a prefix. */
  readonly #parts = new Map<string, Map<Slot, Part>>();

  /** Tells `held` of the prefixes in the slots. */
  constructor(held: HeldPrefixes) {
    this.#held = held;
  }

  /** Notes that the next prompt may use the first `tokens` tokens of a line in this slot, and nothing else in it. */
  holds(slot: Slot, { model, places }: SlotLine, tokens: number): void {
    const before = this.#digests.get(slot) ?? [];
    const held = places.filter((place) => place.tokens > 0 && place.tokens <= tokens);
    this.#digests.set(
      slot,
      held.map(({ digest }) => digest),
    );
    for (const [index, { digest, tokens: upTo }] of held.entries()) {
      const tailTokens = index === held.length - 1 ? tokens - upTo : 0;
      const parts = this.#parts.get(digest) ?? new Map<Slot, Part>();
      this.#parts.set(digest, parts.set(slot, { model, tokens: upTo, tailTokens }));
      this.#tell(digest);
    }
    const kept = new Set(this.#digests.get(slot));
    for (const digest of before) if (!kept.has(digest)) this.#take(digest, slot);
  }

  /** Notes that no prompt can use what is in this slot: it is empty, or another request has it. */
  holdsNothing(slot: Slot): void {
    const digests = this.#digests.get(slot) ?? [];
    this.#digests.delete(slot);
    for (const digest of digests) this.#take(digest, slot);
  }

  #take(digest: string, slot: Slot): void {
    const parts = this.#parts.get(digest);
    parts?.delete(slot);
    if (parts?.size === 0) this.#parts.delete(digest);
    this.#tell(digest);
  }

  #tell(digest: string): void {
    let best: Part | undefined;
    for (const part of this.#parts.get(digest)?.values() ?? []) {
      if (!best || part.tokens + part.tailTokens > best.tokens + best.tailTokens) best = part;
    }
    if (best) this.#held.hold(digest, best);
    else this.#held.drop(digest);
  }
}
