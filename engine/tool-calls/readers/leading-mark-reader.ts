import { type CallProgress, type CallReader, markAt, skipSpace } from "./call-reader.ts";

/** Reads a further mark, after white space, before the call: the first call of a group begins so. */
export class LeadingMarkReader implements CallReader {
  readonly #mark: string;
  readonly #inner: CallReader;
  #isPast = false;

  constructor(mark: string, inner: CallReader) {
    this.#mark = mark;
    this.#inner = inner;
  }

  get startedName(): string | undefined {
    return this.#inner.startedName;
  }

  get nameIsUnknown(): boolean {
    return this.#inner.nameIsUnknown;
  }

  get callId(): string | undefined {
    return this.#inner.callId;
  }

  get argumentsAreWhole(): boolean {
    return this.#inner.argumentsAreWhole;
  }

  get isPastLead(): boolean {
    return this.#isPast;
  }

  flush(rest: string): string {
    return this.#inner.flush?.(rest) ?? "";
  }

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
