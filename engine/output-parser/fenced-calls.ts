import { type CallReader, markAt, skipSpace } from "../tool-calls/readers/call-reader.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { type CodeFence, closingLine } from "./code-fences.ts";

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

  #mayEnd(behind: string): boolean {
    const { char, isFirst } = this.#fence;
    return isFirst && !this.#areText && behind === char.repeat(behind.length);
  }
}

const wholeCharacters = (text: string) => text.replace(/[\uD800-\uDBFF]$/, "");
