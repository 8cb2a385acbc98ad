import type { MarkSet } from "./mark-set.ts";

/** Counts the marks that are open at the end of a value that arrives in pieces: what they enclose is part of it. */
export class CallDepth {
  readonly #opens: MarkSet;
  readonly #marks: MarkSet;
  #depth = 0;
  #rest = "";

  /** `marks`: the opening marks, which are `opens`, and the closing ones. */
  constructor(opens: MarkSet, marks: MarkSet) {
    this.#opens = opens;
    this.#marks = marks;
  }

  push(text: string): void {
    const all = this.#rest + text;
    this.#depth = this.behind(text);
    this.#rest = all.slice(all.length - this.#marks.held(all));
  }

  behind(text: string): number {
    const all = this.#rest + text;
    let depth = this.#depth;
    for (let found = this.#marks.find(all); found; found = this.#marks.find(all, found.at + found.mark.length)) {
      if (this.#opens.has(found.mark)) depth += 1;
      else if (depth > 0) depth -= 1;
    }
    return depth;
  }
}
