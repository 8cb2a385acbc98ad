import { heldSuffixLength } from "./held-suffix.ts";

/** Counts the calls that are open at the end of a value that arrives in pieces: their marks are part of the value. */
export class CallDepth {
  readonly #open: string;
  readonly #close: string;
  #depth = 0;
  #rest = "";

  constructor(open: string, close: string) {
    this.#open = open;
    this.#close = close;
  }

  push(text: string): void {
    const all = this.#rest + text;
    this.#depth = this.behind(text);
    this.#rest = all.slice(all.length - heldSuffixLength(all, [this.#open, this.#close]));
  }

  behind(text: string): number {
    const all = this.#rest + text;
    let depth = this.#depth;
    for (let at = 0; ; ) {
      const open = all.indexOf(this.#open, at);
      const close = depth > 0 ? all.indexOf(this.#close, at) : -1;
      if (open < 0 && close < 0) return depth;
      const isOpen = close < 0 || (open >= 0 && open < close);
      depth += isOpen ? 1 : -1;
      at = isOpen ? open + this.#open.length : close + this.#close.length;
    }
  }
}
