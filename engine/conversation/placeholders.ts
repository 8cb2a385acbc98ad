import { randomBytes } from "node:crypto";

/**
 * A stretch of rendered text by who wrote it: the template's own markup may hold control tokens, a caller's text may
 * not.
 */
export type Span = {
  /** The text itself. */
  readonly text: string;
  /** Who wrote the text. */
  readonly origin: "template" | "caller";
  /** The placeholder that `Placeholders.forText` gave for this span; absent for the template's own text. */
  readonly placeholder?: string;
  /** The number that `Placeholders.forMark` was given for this place, where the span is one: it has no text then. */
  readonly mark?: number;
};

/**
 * The edge of a placeholder, a control character: raw in plain text, but spelled out by every JSON encoder. So a
 * placeholder shows in the rendered text how often it has been JSON-encoded, and its text can be encoded the same way.
 */
const EDGE = "\u0001";
const EDGE_IN_JSON = "u0001";

/** A text, or a place with a number, which has none. */
type Held = { readonly text: string; readonly mark?: number };

/**
 * Stands in for texts while a template is rendered, so that the template cannot mix them up with its own. One is used
 * per rendering.
 */
export class Placeholders {
  readonly #held: Held[] = [];
  #secret = "";

  /**
   * Returns whether a text has to be held although it is harmless, as it would be taken for a remainder of a
   * placeholder.
   */
  static mustHold(text: string): boolean {
    return text.includes(EDGE);
  }

  /** Returns a placeholder for a text. */
  forText(text: string): string {
    return this.#hold({ text });
  }

  /**
   * Returns a text in the form that `quote` gives it, which puts one mark before it and one behind. What was held of it
   * is held again, with all that stands around it.
   */
  quoted(text: string, quote: (text: string) => string): string {
    if (this.#held.length === 0) return quote(text);
    const whole = text.replaceAll(new RegExp(`${EDGE}${this.#secret}:(\\d+)${EDGE}`, "g"), (placeholder, at) => {
      return this.#held[Number(at)]?.text ?? placeholder;
    });
    const made = quote(whole);
    return whole === text ? made : `${made.slice(0, 1)}${this.forText(made.slice(1, -1))}${made.slice(-1)}`;
  }

  /** Returns a placeholder that marks a place with a number. */
  forMark(mark: number): string {
    return this.#hold({ text: "", mark });
  }

  #hold(held: Held): string {
    // Nobody outside this rendering knows it, hence nobody's text holds it. Most renderings need none.
    if (this.#secret === "") this.#secret = randomBytes(12).toString("hex");
    return `${EDGE}${this.#secret}:${this.#held.push(held) - 1}${EDGE}`;
  }

  /** Puts the texts back into the rendered text; undefined when the template has changed a placeholder. */
  restore(rendered: string): readonly Span[] | undefined {
    if (this.#held.length === 0) return rendered === "" ? [] : [{ text: rendered, origin: "template" }];
    const pattern = new RegExp(`${this.#secret}:(\\d+)(?:(\\\\+)${EDGE_IN_JSON}|${EDGE})`, "g");
    const spans: Span[] = [];
    let from = 0;
    for (const match of rendered.matchAll(pattern)) {
      const backslashes = match[2]?.length ?? 0;
      const held = this.#held[Number(match[1])];
      if (!held) return undefined;
      const edge = backslashes === 0 ? EDGE.length : backslashes + EDGE_IN_JSON.length;
      const start = match.index - edge;
      if (start > from) spans.push({ text: rendered.slice(from, start), origin: "template" });
      from = match.index + match[0].length;
      if (held.mark !== undefined) {
        spans.push({ text: "", origin: "template", mark: held.mark });
        continue;
      }
      const placeholder = `${EDGE}${this.#secret}:${match[1]}${EDGE}`;
      spans.push({ text: encoded(held.text, backslashes), origin: "caller", placeholder });
    }
    if (from < rendered.length) spans.push({ text: rendered.slice(from), origin: "template" });
    return spans.some(({ text, origin }) => origin === "template" && this.#isDamaged(text)) ? undefined : spans;
  }

  /** Returns whether a remainder of a placeholder stands in the text: shortened, or in capitals. */
  #isDamaged(text: string): boolean {
    return text.includes(EDGE) || text.toLowerCase().includes(this.#secret.slice(0, 8));
  }
}

/** Returns what one backslash becomes. */
function encoded(text: string, backslashes: number): string {
  let result = text;
  for (let count = 1; count <= backslashes; count *= 2) result = JSON.stringify(result).slice(1, -1);
  return result;
}
