import { type CallReader, markAt, skipSpace } from "../tool-calls/readers/call-reader.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { type CodeFence, closingLine } from "./code-fences.ts";

/** The UTF-16 units after which undecided calls are text. */
const MAX_HELD = 64 * 1024;

/**
 * Examines calls in a code fence, all of them still held back. They are examples (text) if other text follows. They are
 * calls if the output ends after them: a model that shows an example closes its fence, while one that left an earlier
 * fence open, or closed one too many, calls a tool and stops. They are also calls if the fence around them is the whole
 * visible text.
 */
export class FencedCalls {
  readonly #reading: CallReading;
  readonly #fence: CodeFence;
  readonly #lead: number;
  #reader: CallReader | undefined;
  #read: number;
  #end = 0;
  /** Whether the complete call is text nevertheless: its tool is unknown, or it may contain another call. */
  #areText = false;

  /** Begins after `mark`, one of the openers, which ends at `lead` UTF-16 units of the text. */
  constructor(reading: CallReading, mark: string, lead: number, fence: CodeFence) {
    this.#reading = reading;
    this.#fence = fence;
    this.#lead = lead;
    this.#read = lead;
    this.#reader = reading.newReader(mark);
  }

  /**
   * Examines the text, which begins with the mark and grows with every call. Returns the length that is text; undefined
   * if more input is needed.
   */
  push(text: string): number | undefined {
    const length = this.#look(text.slice(0, MAX_HELD));
    return length === undefined && text.length >= MAX_HELD ? this.textLength(text) : length;
  }

  /** Returns whether the text at the end of the output is calls. */
  areCalls(text: string): boolean {
    if (this.#reader !== undefined || this.#areText) return false;
    const behind = text.slice(this.#read).trim();
    return behind === "" || (this.#mayEnd(behind) && behind.length >= this.#fence.length);
  }

  /** Returns the length that is not a call if the rest of the output is unknown. */
  textLength(text: string): number {
    if (this.#end > 0) return this.#end;
    const known = wholeCharacters(text.slice(0, MAX_HELD));
    return this.#lead + closingLine(known.slice(this.#lead), this.#fence);
  }

  #look(text: string): number | undefined {
    const { openers, next, close, otherCloses = [], newReader } = this.#reading;
    const marks = [next, close, ...otherCloses, ...openers];
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

  /** Returns whether the text after the calls may become the closing fence. */
  #mayEnd(behind: string): boolean {
    const { char, isFirst } = this.#fence;
    return isFirst && !this.#areText && behind === char.repeat(behind.length);
  }
}

/** Removes half a surrogate pair at the end. */
const wholeCharacters = (text: string) => text.replace(/[\uD800-\uDBFF]$/, "");
