export type ControlToken = {
  readonly text: string;
  /** Whether the tokenizer drops white space before the token; a text must not be cut there. */
  readonly stripsLeft: boolean;
};

/** A range of a text, in UTF-16 units; `end` is exclusive. */
export type Range = { readonly start: number; readonly end: number };

export type Occurrence = Range & { readonly token: ControlToken };

const BUCKET_SIZES = [2, 1];

/** Spellings that callers must not write: `<|im_end|>` in a user's text must never end the turn. */
export class ControlTokens {
  readonly tokens: readonly ControlToken[];
  readonly #byStart = new Map<number, ControlToken[]>();
  readonly #firstUnits = new Uint8Array(0x1_0000);
  readonly #heads = new Set<string>();
  readonly #tails = new Set<string>();
  readonly #all: string;
  readonly #longest: number;

  constructor(tokens: Iterable<ControlToken>) {
    const kept = [...tokens].filter(({ text }) => text.trim() !== "");
    this.tokens = kept;
    for (const token of kept) {
      const { text } = token;
      const key = startKey(text, 0, text.length);
      const bucket = this.#byStart.get(key);
      if (bucket) bucket.push(token);
      else this.#byStart.set(key, [token]);
      this.#firstUnits[text.charCodeAt(0)] = 1;
      for (let length = 1; length < text.length; length++) {
        this.#heads.add(text.slice(0, length));
        this.#tails.add(text.slice(-length));
      }
    }
    this.#longest = Math.max(0, ...kept.map(({ text }) => text.length));
    this.#all = kept.map(({ text }) => text).join("\n");
  }

  /** Returns all occurrences of spellings, including overlapping ones, by start. */
  occurrences(text: string): readonly Occurrence[] {
    return this.#find(text, text.length);
  }

  /** Returns whether no spelling can result from placing this text among others. */
  isInert(text: string): boolean {
    if (text.length < this.#longest && this.#all.includes(text)) return text === "";
    const reach = Math.min(this.#longest - 1, text.length);
    for (let length = 1; length <= reach; length++) {
      if (this.#heads.has(text.slice(-length)) || this.#tails.has(text.slice(0, length))) return false;
    }
    return this.#find(text, 1).length === 0;
  }

  #find(text: string, most: number): readonly Occurrence[] {
    const found: Occurrence[] = [];
    for (let start = 0; start < text.length && found.length < most; start++) {
      if (this.#firstUnits[text.charCodeAt(start)] !== 1) continue;
      for (const size of BUCKET_SIZES) {
        for (const token of this.#byStart.get(startKey(text, start, size)) ?? []) {
          if (text.startsWith(token.text, start)) found.push({ start, end: start + token.text.length, token });
        }
      }
    }
    return found;
  }
}

function startKey(text: string, at: number, size: number): number {
  return size === 1 ? text.charCodeAt(at) : text.charCodeAt(at) * 0x1_0000 + text.charCodeAt(at + 1) + 0x1_0000;
}
