import { heldSuffixLength } from "../tool-calls/readers/held-suffix.ts";

/** Finds stop strings in text that arrives in pieces, and holds back their prefixes. */
export class StopMatcher {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  get heldLength(): number {
    return this.#held.length;
  }

  /** The stop string that completes first wins, and the longer of two that end together, however the text is split. */
  push(text: string): { readonly text: string; readonly matched?: string } {
    const all = this.#held + text;
    let best: { readonly start: number; readonly end: number; readonly stop: string } | undefined;
    for (const stop of this.#stops) {
      const start = all.indexOf(stop);
      if (start < 0) continue;
      const end = start + stop.length;
      if (best === undefined || end < best.end || (end === best.end && start < best.start)) best = { start, end, stop };
    }
    if (best !== undefined) {
      this.#held = "";
      return { text: all.slice(0, best.start), matched: best.stop };
    }
    const keep = heldSuffixLength(all, this.#stops);
    this.#held = all.slice(all.length - keep);
    return { text: all.slice(0, all.length - keep) };
  }

  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}
