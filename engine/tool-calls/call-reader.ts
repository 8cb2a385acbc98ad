/** The length of the longest suffix of `text` that is a proper prefix of one of `wanted`, in UTF-16 units. */
export function heldSuffixLength(text: string, wanted: readonly string[]): number {
  let longest = 0;
  for (const candidate of wanted) {
    const first = candidate.charCodeAt(0);
    for (let length = Math.min(candidate.length - 1, text.length); length > longest; length -= 1) {
      // Most positions are no prefix; the comparison of one unit avoids a copy.
      if (text.charCodeAt(text.length - length) !== first) continue;
      if (candidate.startsWith(text.slice(text.length - length))) longest = length;
    }
  }
  return longest;
}

export type CallProgress = {
  /** The UTF-16 units of the piece that belong to the call; the rest must be passed again with more text. */
  readonly consumed: number;
  /** The JSON text of the arguments to send now. Empty until the name is known. */
  readonly arguments: string;
  readonly state: "open" | "closed" | "malformed";
};

/** Reads one call in the form of its family, from the character after its opening mark to its closing mark. */
export type CallReader = {
  readonly startedName: string | undefined;
  readonly nameIsUnknown: boolean;
  /** Whether more than the mark that begins a group has been read. Absent: always. */
  readonly isPastLead?: boolean;
  /** The id in the model's output; undefined if it wrote none, or before the name is known. */
  readonly callId?: string | undefined;
  /** Whether the arguments sent so far are a complete JSON object. */
  readonly argumentsAreWhole: boolean;
  push(text: string): CallProgress;
  /** The held JSON text of the arguments if the output ends inside the call with `rest`. Absent: nothing is held. */
  flush?(rest: string): string;
};

export const isSpace = (char: string): boolean => char === " " || char === "\n" || char === "\t" || char === "\r";

export const MAX_NAME = 256;

export function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charAt(at))) at += 1;
  return at;
}

/** `"partly"` if more text could complete a mark, or a longer one. An empty mark never matches. */
export function markAt(
  text: string,
  from: number,
  marks: readonly string[],
): { readonly mark: string } | "partly" | undefined {
  let partly = false;
  let longest = "";
  for (const mark of marks) {
    if (mark.length <= longest.length) continue;
    if (text.startsWith(mark, from)) longest = mark;
    else if (mark.startsWith(text.slice(from, from + mark.length))) partly = true;
  }
  if (partly) return "partly";
  return longest === "" ? undefined : { mark: longest };
}

/** Reads a further mark, after white space, before the call: the first call of a group begins so. */
export class LeadingMarkReader implements CallReader {
  readonly #mark: string;
  readonly #inner: CallReader;
  isPastLead = false;

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

  flush(rest: string): string {
    return this.#inner.flush?.(rest) ?? "";
  }

  push(text: string): CallProgress {
    if (this.isPastLead) return this.#inner.push(text);
    const at = skipSpace(text, 0);
    const found = markAt(text, at, [this.#mark]);
    if (found === undefined) return { consumed: at, arguments: "", state: "malformed" };
    if (found === "partly") return { consumed: at, arguments: "", state: "open" };
    this.isPastLead = true;
    const start = at + this.#mark.length;
    const progress = this.#inner.push(text.slice(start));
    return { ...progress, consumed: start + progress.consumed };
  }
}
