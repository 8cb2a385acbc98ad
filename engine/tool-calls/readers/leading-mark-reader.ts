import { type CallProgress, type CallReader, markAt, skipSpace } from "./call-reader.ts";

/** Reads one more mark, after white space, before the call itself: the first call of a group begins so. */
export class LeadingMarkReader implements CallReader {
  readonly #mark: string;
  readonly #inner: CallReader;
  #isPast = false;

  /** Reads `mark`, and hands what follows to `inner`. */
  constructor(mark: string, inner: CallReader) {
    this.#mark = mark;
    this.#inner = inner;
  }

  /** The name of the tool, once it and the start of the arguments have been seen and it is a known one. */
  get startedName(): string | undefined {
    return this.#inner.startedName;
  }

  /** Whether the name has been read and is that of no tool. */
  get nameIsUnknown(): boolean {
    return this.#inner.nameIsUnknown;
  }

  /** The id that the model gave the call; undefined where it gave none, or before the name is known. */
  get callId(): string | undefined {
    return this.#inner.callId;
  }

  /** Whether the arguments that have gone out are a whole JSON object. */
  get argumentsAreWhole(): boolean {
    return this.#inner.argumentsAreWhole;
  }

  /** Whether the mark that begins the call has been read. */
  get isPastLead(): boolean {
    return this.#isPast;
  }

  /** Returns the JSON text of the arguments that was held back, where the output ends inside the call with `rest`. */
  flush(rest: string): string {
    return this.#inner.flush?.(rest) ?? "";
  }

  /** Takes the next piece of the call. */
  push(text: string): CallProgress {
    if (this.#isPast) return this.#inner.push(text);
    const at = skipSpace(text, 0);
    const found = markAt(text, at, [this.#mark]);
    if (found === undefined) return { consumed: at, arguments: "", state: "malformed" };
    if (found === "partly") return { consumed: at, arguments: "", state: "open" };
    this.#isPast = true;
    const start = at + this.#mark.length;
    const progress = this.#inner.push(text.slice(start));
    return { ...progress, consumed: start + progress.consumed };
  }
}
