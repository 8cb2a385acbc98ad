import { heldSuffixLength, markAt } from "./call-reader.ts";

type Found = { readonly at: number; readonly mark: string };

/** Marks that are looked for together: the earliest counts, and of several at one place the longest. */
export class MarkSet {
  readonly marks: readonly string[];
  readonly #any: RegExp;
  readonly #longest: number;

  /** An empty mark never matches. */
  constructor(...lists: readonly (readonly string[])[]) {
    this.marks = [...new Set(lists.flat())].filter((mark) => mark !== "").sort((a, b) => b.length - a.length);
    this.#any = new RegExp(this.marks.map(escaped).join("|") || "(?!)", "g");
    this.#longest = this.marks[0]?.length ?? 0;
  }

  has(mark: string): boolean {
    return this.marks.includes(mark);
  }

  find(text: string, from = 0): Found | undefined {
    this.#any.lastIndex = from;
    const found = this.#any.exec(text);
    return found === null ? undefined : { at: found.index, mark: found[0] };
  }

  /** `"partly"` if more text could complete a mark, or a longer one. */
  at(text: string, from: number): { readonly mark: string } | "partly" | undefined {
    return markAt(text, from, this.marks);
  }

  /** The length of the longest suffix of `text` that may become a mark, in UTF-16 units. */
  held(text: string): number {
    return heldSuffixLength(text.slice(Math.max(0, text.length - this.#longest)), this.marks);
  }
}

const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
