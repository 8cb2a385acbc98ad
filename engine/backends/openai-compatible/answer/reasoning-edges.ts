import type { ReasoningMarkers } from "../../../output-parser/markers.ts";
import { heldSuffixLength } from "../../../tool-calls/readers/held-suffix.ts";

/**
 * Takes the white space that the chat template writes inside the marks of reasoning off reasoning that an engine has
 * separated: as much as the template writes, and no more.
 */
export class ReasoningEdges {
  /** The part of the white space behind the opening mark that may still come. */
  #lead: string;
  readonly #tail: string;
  /** The end of what has come, which may be the white space in front of the closing mark. */
  #held = "";

  constructor(markers: ReasoningMarkers | undefined) {
    this.#lead = markers?.afterOpen ?? "";
    this.#tail = markers?.beforeClose ?? "";
  }

  /** Takes the next piece, and returns what is certainly reasoning. */
  push(piece: string): string {
    const text = this.#held + this.#withoutLead(piece);
    const kept = text.endsWith(this.#tail) ? this.#tail.length : heldSuffixLength(text, [this.#tail]);
    this.#held = text.slice(text.length - kept);
    return text.slice(0, text.length - kept);
  }

  /** Returns what was held, which is reasoning where the answer was cut before the closing mark. */
  rest(): string {
    return this.#held;
  }

  #withoutLead(piece: string): string {
    let from = 0;
    while (this.#lead !== "" && from < piece.length) {
      if (piece[from] === this.#lead[0]) {
        this.#lead = this.#lead.slice(1);
        from += 1;
      } else this.#lead = "";
    }
    return piece.slice(from);
  }
}
