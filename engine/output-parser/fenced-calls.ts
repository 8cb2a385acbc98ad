import { type CallReader, markAt, skipSpace } from "../tool-calls/readers/call-reader.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { type CodeFence, closingLine } from "./code-fences.ts";

/** The UTF-16 units after which calls that are not decided yet are text. */
const MAX_HELD = 64 * 1024;

/**
 * Looks at calls in a fence of code, of which none has gone out. They are examples, and text, as soon as anything
 * follows that is no call. They are calls where the output ends behind them: a model that shows an example closes its
 * fence, and one that forgot to close an earlier one, or closed one too many, calls a tool and ends. They are calls, too,
 * where a fence around them is all of the visible text.
 */
export class FencedCalls {
  readonly #reading: CallReading;
  readonly #fence: CodeFence;
  readonly #lead: number;
  #reader: CallReader | undefined;
  #read: number;
  /** Where the last whole call ends. */
  #end = 0;
  /** Whether what ends there is text all the same: the call of a tool that nobody offered, or one that hides another. */
  #areText = false;

  /** Begins behind `mark`, one of the openers, with which `lead` UTF-16 units of the text end. */
  constructor(reading: CallReading, mark: string, lead: number, fence: CodeFence) {
    this.#reading = reading;
    this.#fence = fence;
    this.#lead = lead;
    this.#read = lead;
    this.#reader = reading.newReader(mark);
  }

  /**
   * Looks at the text, which begins with the mark and is longer at every call. Returns how much of it is text; undefined
   * while more is needed.
   */
  push(text: string): number | undefined {
    const length = this.#look(text.slice(0, MAX_HELD));
    return length === undefined && text.length >= MAX_HELD ? this.textLength(text) : length;
  }

  /** Returns whether the text, with which the output has ended, is calls. */
  areCalls(text: string): boolean {
    if (this.#reader !== undefined || this.#areText) return false;
    const behind = text.slice(this.#read).trim();
    return behind === "" || (this.#mayEnd(behind) && behind.length >= this.#fence.length);
  }

  /** Returns how much of a text is no call where it is not to be known what follows. */
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

  /** Returns whether the fence may have closed inside a call, and another call begun, of which the end is. */
  #holdsAnother(call: string): boolean {
    const behind = call.slice(closingLine(call, this.#fence));
    return this.#reading.openers.some((opener) => behind.includes(opener));
  }

  /** Returns whether what stands behind the calls may become the end of a fence around all. */
  #mayEnd(behind: string): boolean {
    const { char, isFirst } = this.#fence;
    return isFirst && !this.#areText && behind === char.repeat(behind.length);
  }
}

/** Returns a text without half a character at its end. */
const wholeCharacters = (text: string) => text.replace(/[\uD800-\uDBFF]$/, "");
