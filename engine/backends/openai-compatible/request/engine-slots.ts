import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";

type Slot = {
  /** The digest of its last prompt; empty for an empty slot. */
  end: string;
  busy: boolean;
  usedMs: number;
};

/** A held slot of the engine. */
export type HeldSlot = {
  /** Its number at the engine. */
  readonly place: number;
  /** Releases the slot, whose cache stays. Further calls do nothing. */
  release(): void;
};

/**
 * Chooses slots of an engine whose slots hold a conversation each. Its own choice is the most similar cache, which cuts
 * the conversation of one agent down to the system prompt that another has, too.
 */
export class EngineSlots {
  readonly #slots: readonly Slot[];
  readonly #nowMs: () => number;

  constructor(count: number, nowMs: () => number) {
    this.#nowMs = nowMs;
    const empty = () => ({ end: "", busy: false, usedMs: Number.NEGATIVE_INFINITY });
    this.#slots = Array.from({ length: count }, empty);
  }

  /**
   * Takes the slot of the conversation that a prompt continues, else an empty one, else the least recently used; undefined
   * where all are busy, or the prompt has no digests: the engine chooses.
   */
  take(marks: readonly PrefixMark[]): HeldSlot | undefined {
    if (marks.length === 0) return undefined;
    const digests = new Set(marks.map(({ digest }) => digest));
    const free = this.#slots.filter(({ busy }) => !busy).toSorted((a, b) => a.usedMs - b.usedMs);
    const slot = free.findLast(({ end }) => digests.has(end)) ?? free[0];
    if (!slot) return undefined;
    Object.assign(slot, { end: marks.at(-1)?.digest ?? "", busy: true });
    let isHeld = true;
    return {
      place: this.#slots.indexOf(slot),
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        Object.assign(slot, { busy: false, usedMs: this.#nowMs() });
      },
    };
  }
}
