import { FENCE } from "./markers.ts";

export type CodeFence = {
  readonly char: string;
  /** The length of the opening fence; the closing fence is at least as long. */
  readonly length: number;
  readonly isFirst: boolean;
};

type Line =
  | { readonly at: "indent"; readonly spaces: number }
  | { readonly at: "run"; readonly fence: CodeFence; readonly isOver: boolean }
  | { readonly at: "info" }
  | { readonly at: "rest" };

const START: Line = { at: "indent", spaces: 0 };
const REST: Line = { at: "rest" };

const isBlank = (char: string) => char === " " || char === "\t" || char === "\r";

/** Tracks whether a code fence is open at the end of a text that arrives in pieces. */
export class CodeFences {
  #open: CodeFence | undefined;
  #line: Line = START;
  #isEmpty = true;

  get open(): CodeFence | undefined {
    if (this.#line.at !== "run") return this.#open;
    return this.#behindRun(this.#line.fence);
  }

  reset(): void {
    this.#open = undefined;
    this.#line = START;
    this.#isEmpty = true;
  }

  push(text: string): void {
    let at = 0;
    while (at < text.length) {
      if (this.#line.at === "rest") {
        const end = text.indexOf("\n", at);
        if (end < 0) return;
        at = end;
      }
      this.#take(text.charAt(at));
      at += 1;
    }
  }

  #take(char: string): void {
    const line = this.#line;
    if (char === "\n") {
      this.#open = this.open;
      this.#line = START;
    } else if (line.at === "indent") {
      this.#line = this.#behindIndent(line.spaces, char);
    } else if (line.at === "run") {
      this.#line = this.#inRun(line, char);
    } else if (line.at === "info" && char === "`" && this.#open?.char === "`") {
      // A backtick in the info string makes the line inline code.
      this.#open = undefined;
      this.#line = REST;
    }
  }

  #behindIndent(spaces: number, char: string): Line {
    if (char === " ") return spaces < FENCE.maxIndent ? { at: "indent", spaces: spaces + 1 } : REST;
    const isFirst = this.#isEmpty;
    if (!isBlank(char)) this.#isEmpty = false;
    return FENCE.signs.includes(char) ? { at: "run", fence: { char, length: 1, isFirst }, isOver: false } : REST;
  }

  #inRun({ fence, isOver }: Extract<Line, { at: "run" }>, char: string): Line {
    if (char === fence.char && !isOver) return { at: "run", fence: { ...fence, length: fence.length + 1 }, isOver };
    if (isBlank(char)) return { at: "run", fence, isOver: true };
    if (this.#open !== undefined || fence.length < FENCE.minLength || (char === "`" && fence.char === "`")) return REST;
    this.#open = fence;
    return { at: "info" };
  }

  #behindRun(run: CodeFence): CodeFence | undefined {
    const open = this.#open;
    if (open === undefined) return run.length >= FENCE.minLength ? run : undefined;
    return run.char === open.char && run.length >= open.length ? undefined : open;
  }
}

export function closingLine(text: string, { char, length }: CodeFence): number {
  const at = text.search(new RegExp(`^ {0,${FENCE.maxIndent}}${char}{${length},}[ \\t\\r]*$`, "m"));
  return at < 0 ? text.length : at;
}
