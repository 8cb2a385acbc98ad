import { type CallReader, skipSpace } from "../tool-calls/call-reader.ts";
import { markAt } from "../tool-calls/mark-set.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
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

function closingLine(text: string, { char, length }: CodeFence): number {
  const at = text.search(new RegExp(`^ {0,${FENCE.maxIndent}}${char}{${length},}[ \\t\\r]*$`, "m"));
  return at < 0 ? text.length : at;
}

const MAX_HELD = 64 * 1024;

/**
 * Calls in a code fence, still held back: examples if other text follows, calls if the output ends after them (a model
 * that shows an example closes its fence) or the fence is the whole visible text.
 */
export class FencedCalls {
  readonly #reading: CallReading;
  readonly #fence: CodeFence;
  readonly #lead: number;
  #reader: CallReader | undefined;
  #read: number;
  #end = 0;
  #areText = false;

  /** Begins after `mark`, one of the openers, which ends at `lead` UTF-16 units of the text. */
  constructor(reading: CallReading, mark: string, lead: number, fence: CodeFence) {
    this.#reading = reading;
    this.#fence = fence;
    this.#lead = lead;
    this.#read = lead;
    this.#reader = reading.newReader(mark);
  }

  /** Returns the length that is text; undefined if more input is needed. */
  push(text: string): number | undefined {
    const length = this.#look(text.slice(0, MAX_HELD));
    return length === undefined && text.length >= MAX_HELD ? this.textLength(text) : length;
  }

  areCalls(text: string): boolean {
    if (this.#reader !== undefined || this.#areText) return false;
    const behind = text.slice(this.#read).trim();
    return behind === "" || (this.#mayEnd(behind) && behind.length >= this.#fence.length);
  }

  textLength(text: string): number {
    if (this.#end > 0) return this.#end;
    const known = wholeCharacters(text.slice(0, MAX_HELD));
    return this.#lead + closingLine(known.slice(this.#lead), this.#fence);
  }

  #look(text: string): number | undefined {
    const { openers, next, close, closers, newReader } = this.#reading;
    const marks = [next, close, ...closers, ...openers];
    for (;;) {
      if (this.#reader !== undefined) {
        const { consumed, state } = this.#reader.push(text.slice(this.#read));
        this.#read += consumed;
        if (state === "open") return undefined;
        if (state === "malformed" || !this.#reader.argumentsAreWhole) return this.#end || this.#lead;
        this.#areText ||= this.#reader.nameIsUnknown || this.#holdsAnother(text.slice(this.#end, this.#read));
        this.#reader = undefined;
        this.#end = this.#read;
      }
      const at = skipSpace(text, this.#read);
      const found = markAt(text, at, marks);
      if (found === "partly") return undefined;
      if (found === undefined) return this.#mayEnd(text.slice(at).trim()) ? undefined : this.#end;
      const isCall = found.mark === next || openers.includes(found.mark);
      if (isCall && this.#areText) return this.#end;
      this.#read = at + found.mark.length;
      if (isCall) this.#reader = newReader(found.mark);
      else this.#end = this.#read;
    }
  }

  /** Returns whether the fence may have closed inside a call, with another call after it. */
  #holdsAnother(call: string): boolean {
    const behind = call.slice(closingLine(call, this.#fence));
    return this.#reading.openers.some((opener) => behind.includes(opener));
  }

  #mayEnd(behind: string): boolean {
    const { char, isFirst } = this.#fence;
    return isFirst && !this.#areText && behind === char.repeat(behind.length);
  }
}

const wholeCharacters = (text: string) => text.replace(/[\uD800-\uDBFF]$/, "");
