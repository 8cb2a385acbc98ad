import { FENCE } from "./markers.ts";

/** A fence of code that is open, as Markdown has it. */
export type CodeFence = {
  /** The character that it is made of. */
  readonly char: string;
  /** How often that stands at its start; at its end it stands as often or more often. */
  readonly length: number;
  /** Whether nothing but white space stands before it. */
  readonly isFirst: boolean;
};

type Line =
  /** Behind so many spaces at the start of the line. */
  | { readonly at: "indent"; readonly spaces: number }
  /** Behind characters of a fence, and perhaps white space. */
  | { readonly at: "run"; readonly fence: CodeFence; readonly isOver: boolean }
  /** In the words behind the characters that opened a fence. */
  | { readonly at: "info" }
  | { readonly at: "rest" };

const START: Line = { at: "indent", spaces: 0 };
const REST: Line = { at: "rest" };

const isBlank = (char: string) => char === " " || char === "\t" || char === "\r";

/** Knows of a text that comes in pieces whether a fence of code is open at its end. */
export class CodeFences {
  #open: CodeFence | undefined;
  #line: Line = START;
  #isEmpty = true;

  /** The fence that is open here; undefined where none is. */
  get open(): CodeFence | undefined {
    if (this.#line.at !== "run") return this.#open;
    return this.#behindRun(this.#line.fence);
  }

  /** Forgets the text so far. */
  reset(): void {
    this.#open = undefined;
    this.#line = START;
    this.#isEmpty = true;
  }

  /** Takes the next piece of the text. */
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
      // What such a line has is code in a line of text.
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

  /** Returns what is open behind a line that has nothing but the characters of a fence. */
  #behindRun(run: CodeFence): CodeFence | undefined {
    const open = this.#open;
    if (open === undefined) return run.length >= FENCE.minLength ? run : undefined;
    return run.char === open.char && run.length >= open.length ? undefined : open;
  }
}

/** Returns where in a text the line begins that closes a fence; the length of the text where none does. */
export function closingLine(text: string, { char, length }: CodeFence): number {
  const at = text.search(new RegExp(`^ {0,${FENCE.maxIndent}}${char}{${length},}[ \\t\\r]*$`, "m"));
  return at < 0 ? text.length : at;
}
