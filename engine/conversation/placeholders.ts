import { randomBytes } from "node:crypto";

/** A part of the rendered text by author: the template's markup may contain control tokens, a caller's text may not. */
export type Span = {
  readonly text: string;
  readonly origin: "template" | "caller";
  readonly placeholder?: string;
  readonly mark?: number;
};

/** A control character, raw in text but escaped by every JSON encoder: it shows how often a placeholder was encoded. */
const EDGE = "\u0001";
const EDGE_IN_JSON = "u0001";

type Held = { readonly text: string; readonly mark?: number };

/** Keeps callers' texts apart from the template's own while it renders. One instance per rendering. */
export class Placeholders {
  readonly #held: Held[] = [];
  #secret = "";

  /** Returns whether a harmless text needs a placeholder because it looks like the rest of one. */
  static mustHold(text: string): boolean {
    return text.includes(EDGE);
  }

  forText(text: string): string {
    return this.#hold({ text });
  }

  /** `quote` adds one character before and after. Placeholders inside become one for the whole quoted text. */
  quoted(text: string, quote: (text: string) => string): string {
    if (this.#held.length === 0) return quote(text);
    const whole = text.replaceAll(new RegExp(`${EDGE}${this.#secret}:(\\d+)${EDGE}`, "g"), (placeholder, at) => {
      return this.#held[Number(at)]?.text ?? placeholder;
    });
    const made = quote(whole);
    return whole === text ? made : `${made.slice(0, 1)}${this.forText(made.slice(1, -1))}${made.slice(-1)}`;
  }

  forMark(mark: number): string {
    return this.#hold({ text: "", mark });
  }

  #hold(held: Held): string {
    // Created per rendering, so that no text can contain it. Most renderings need none.
    if (this.#secret === "") this.#secret = randomBytes(12).toString("hex");
    return `${EDGE}${this.#secret}:${this.#held.push(held) - 1}${EDGE}`;
  }

  /** Restores the texts in the rendered text; undefined if the template changed a placeholder. */
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

  /** Returns whether the text contains the rest of a placeholder: shortened, or in capitals. */
  #isDamaged(text: string): boolean {
    return text.includes(EDGE) || text.toLowerCase().includes(this.#secret.slice(0, 8));
  }
}

/** Each level of JSON encoding doubles the backslashes before an edge. */
function encoded(text: string, backslashes: number): string {
  let result = text;
  for (let count = 1; count <= backslashes; count *= 2) result = JSON.stringify(result).slice(1, -1);
  return result;
}
