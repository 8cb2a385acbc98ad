import type { ReasoningMarkers } from "../../../output-parser/markers.ts";
import { heldSuffixLength } from "../../../tool-calls/call-reader.ts";

/**
 * Removes the white space that the chat template writes inside the reasoning markers from reasoning that an engine has
 * separated: exactly as much as the template writes.
 */
export class ReasoningEdges {
  /** The rest of the white space after the opening marker that may still come. */
  #lead: string;
  readonly #tail: string;
  /** The held end of the text, which may be the white space before the closing marker. */
  #held = "";

  constructor(markers: ReasoningMarkers | undefined) {
    this.#lead = markers?.afterOpen ?? "";
    this.#tail = markers?.beforeClose ?? "";
  }

  /** Takes the next piece, and returns the text that is certainly reasoning. */
  push(piece: string): string {
    const text = this.#held + this.#withoutLead(piece);
    const kept = text.endsWith(this.#tail) ? this.#tail.length : heldSuffixLength(text, [this.#tail]);
    this.#held = text.slice(text.length - kept);
    return text.slice(0, text.length - kept);
  }

  /** Returns the held text, which is reasoning if the answer was truncated before the closing marker. */
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
