type Found = { readonly at: number; readonly mark: string };

const made = new WeakMap<readonly string[], MarkSet>();

/** Marks that are looked for together: the earliest counts, and of several at one place the longest. */
export class MarkSet {
  readonly marks: readonly string[];
  readonly #known: ReadonlySet<string>;
  readonly #firsts: readonly string[];
  readonly #longest: number;
  #any: RegExp | undefined;

  /** An empty mark never matches. */
  constructor(...lists: readonly (readonly string[])[]) {
    this.#known = new Set(lists.flat().filter((mark) => mark !== ""));
    this.marks = [...this.#known].sort((a, b) => b.length - a.length);
    this.#firsts = [...new Set(this.marks.map((mark) => mark.charAt(0)))];
    this.#longest = this.marks[0]?.length ?? 0;
  }

  /** The set of a list, made once. */
  static of(list: readonly string[]): MarkSet {
    const set = made.get(list) ?? new MarkSet(list);
    made.set(list, set);
    return set;
  }

  has(mark: string): boolean {
    return this.#known.has(mark);
  }

  find(text: string, from = 0): Found | undefined {
    // Most texts have no beginning of a mark, and need no search for whole ones.
    if (!this.#firsts.some((first) => text.includes(first, from))) return undefined;
    this.#any ??= new RegExp(this.marks.map(escaped).join("|"), "g");
    this.#any.lastIndex = from;
    const found = this.#any.exec(text);
    return found === null ? undefined : { at: found.index, mark: found[0] };
  }

  /** `"partly"` if more text could complete a mark, or a longer one. */
  at(text: string, from: number): { readonly mark: string } | "partly" | undefined {
    if (from < text.length && !this.#firsts.includes(text.charAt(from))) return undefined;
    return markAt(text, from, this.marks);
  }

  /** The length of the longest suffix of `text` that may become a mark, in UTF-16 units. */
  held(text: string): number {
    for (let at = Math.max(0, text.length - this.#longest + 1); at < text.length; at += 1) {
      if (!this.#firsts.includes(text.charAt(at))) continue;
      const suffix = text.slice(at);
      if (this.marks.some((mark) => mark.length > suffix.length && mark.startsWith(suffix))) return suffix.length;
    }
    return 0;
  }
}

const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** `"partly"` if more text could complete a mark, or a longer one. An empty mark never matches. */
export function markAt(
  text: string,
  from: number,
  marks: readonly string[],
): { readonly mark: string } | "partly" | undefined {
  let partly = false;
  let longest = "";
  for (const mark of marks) {
    if (mark.length <= longest.length) continue;
    if (text.startsWith(mark, from)) longest = mark;
    else if (text.length - from < mark.length && mark.startsWith(text.slice(from))) partly = true;
  }
  if (partly) return "partly";
  return longest === "" ? undefined : { mark: longest };
}
