/** A JSON value with the text that the public procedure makes of it. */
export type SpelledJson = {
  /** The value, as `JSON.parse` gives it. */
  readonly value: unknown;
  /** The text: one space behind `,` and `:`, no other white space, and numbers as they are spelled in the source. */
  readonly text: string;
  /** The members of an object, by name; undefined for another value. */
  readonly members?: ReadonlyMap<string, SpelledJson>;
  /** The items of a list; undefined for another value. */
  readonly items?: readonly SpelledJson[];
};

const WHITE_SPACE = " \t\n\r";

/**
 * Reads JSON and keeps how its numbers are spelled, as `1.0` is no integer to a grammar, and JavaScript makes it one.
 * Throws `SyntaxError`.
 */
export function readSpelledJson(source: string): SpelledJson {
  const reader = new Reader(source);
  const found = reader.value();
  reader.end();
  return found;
}

class Reader {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  value(): SpelledJson {
    this.#space();
    const char = this.#source[this.#at];
    if (char === "{") return this.#object();
    if (char === "[") return this.#list();
    return char === '"' ? this.#string() : this.#literal();
  }

  end(): void {
    this.#space();
    if (this.#at < this.#source.length) throw new SyntaxError(`unexpected text at ${this.#at}`);
  }

  #object(): SpelledJson {
    const members = new Map<string, SpelledJson>();
    this.#at += 1;
    while (!this.#closes("}", members.size > 0)) {
      this.#space();
      const { value: key } = this.#string();
      this.#space();
      if (this.#source[this.#at] !== ":") throw new SyntaxError(`no colon at ${this.#at}`);
      this.#at += 1;
      members.set(String(key), this.value());
    }
    const texts = [...members].map(([key, member]) => `${JSON.stringify(key)}: ${member.text}`);
    const value = Object.fromEntries([...members].map(([key, member]) => [key, member.value]));
    return { value, text: `{${texts.join(", ")}}`, members };
  }

  #list(): SpelledJson {
    const items: SpelledJson[] = [];
    this.#at += 1;
    while (!this.#closes("]", items.length > 0)) items.push(this.value());
    return { value: items.map(({ value }) => value), text: `[${items.map(({ text }) => text).join(", ")}]`, items };
  }

  /** Returns whether the list or object ends here, and steps over what stands in front of the next part. */
  #closes(end: string, hasParts: boolean): boolean {
    this.#space();
    if (this.#source[this.#at] === end) {
      this.#at += 1;
      return true;
    }
    if (hasParts) {
      if (this.#source[this.#at] !== ",") throw new SyntaxError(`no comma at ${this.#at}`);
      this.#at += 1;
    }
    return false;
  }

  #string(): SpelledJson {
    let end = this.#at + 1;
    while (end < this.#source.length && this.#source[end] !== '"') end += this.#source[end] === "\\" ? 2 : 1;
    const value: unknown = JSON.parse(this.#source.slice(this.#at, end + 1));
    this.#at = end + 1;
    return { value, text: JSON.stringify(value) };
  }

  #literal(): SpelledJson {
    let end = this.#at;
    while (end < this.#source.length && !`${WHITE_SPACE},]}`.includes(this.#source[end] ?? "")) end += 1;
    const text = this.#source.slice(this.#at, end);
    this.#at = end;
    return { value: JSON.parse(text), text };
  }

  #space(): void {
    while (this.#at < this.#source.length && WHITE_SPACE.includes(this.#source[this.#at] ?? "x")) this.#at += 1;
  }
}
