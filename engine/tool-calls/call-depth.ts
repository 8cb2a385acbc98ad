import { MarkSet } from "./mark-set.ts";

/** Counts what is open at the end of a value that arrives in pieces: marks inside it are part of the value. */
export class CallDepth {
  readonly #opens: MarkSet;
  readonly #marks: MarkSet;
  #depth = 0;
  #rest = "";

  constructor(opens: readonly string[], closes: readonly string[]) {
    this.#opens = new MarkSet(opens);
    this.#marks = new MarkSet(opens, closes);
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
