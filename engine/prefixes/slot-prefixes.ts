import type { HeldPrefixes } from "./held-prefixes.ts";

/** A position in the tokens of a prompt that a digest names. */
export type PrefixPlace = {
  readonly digest: string;
  readonly tokens: number;
};

export type SlotLine = {
  readonly model: string;
  readonly places: readonly PrefixPlace[];
};

type Part = { readonly model: string; readonly tokens: number; readonly tailTokens: number };

/**
 * Maps prefixes to slots, each of which holds the tokens of one conversation from its beginning. For a prefix in
 * several slots, the slot with the longest part counts.
 */
export class SlotPrefixes<Slot extends object> {
  readonly #held: HeldPrefixes;
  readonly #digests = new Map<Slot, readonly string[]>();
  readonly #parts = new Map<string, Map<Slot, Part>>();

  constructor(held: HeldPrefixes) {
    this.#held = held;
  }

  /** Records that the first `tokens` tokens of a line are reusable in this slot, and nothing else. */
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
      this.#updateHeld(digest);
    }
    const kept = new Set(this.#digests.get(slot));
    for (const digest of before) if (!kept.has(digest)) this.#take(digest, slot);
  }

  /** Records that nothing of this slot is known to be reusable. */
  holdsNothing(slot: Slot): void {
    const digests = this.#digests.get(slot) ?? [];
    this.#digests.delete(slot);
    for (const digest of digests) this.#take(digest, slot);
  }

  #take(digest: string, slot: Slot): void {
    const parts = this.#parts.get(digest);
    parts?.delete(slot);
    if (parts?.size === 0) this.#parts.delete(digest);
    this.#updateHeld(digest);
  }

  #updateHeld(digest: string): void {
    let best: Part | undefined;
    for (const part of this.#parts.get(digest)?.values() ?? []) {
      if (!best || part.tokens + part.tailTokens > best.tokens + best.tailTokens) best = part;
    }
    if (best) this.#held.hold(digest, best);
    else this.#held.drop(digest);
  }
}
