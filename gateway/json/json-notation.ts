/*
 * What a parsed JSON value does not tell of its text, and `JSON.stringify` therefore writes in another way: the place
 * of keys that are array indices, as objects put these first, and how numbers were written, as `1.0` and `1` are one
 * value.
 */

/** What the text of an object or an array says beyond its parsed value, all the way down. */
export type Notation = {
  /** The keys of an object in the order of the text; undefined where the parsed object has the same order. */
  readonly keys: readonly string[] | undefined;
  /**
   * The text of a number or the notation of a member, by its key or position. Members that the parsed value tells in
   * full are left out.
   */
  readonly members: ReadonlyMap<string, string | Notation>;
};

const INDEX = /^(?:0|[1-9][0-9]{0,9})$/;

/**
 * Returns whether JavaScript objects may move this key to the front. It may be wrong in saying yes, which costs time,
 * not truth.
 */
export function isIndexKey(key: string): boolean {
  return INDEX.test(key);
}

/** Returns whether `JSON.stringify` writes a number in another way than `text`, which is valid JSON. */
export function isRestated(text: string): boolean {
  return String(Number(text)) !== text;
}

const TAB = 0x09;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Reads the notation of a text that `JSON.parse` has taken; undefined when the parsed value tells all. Of a key that an
 * object holds more than once the first place and the last value count, as for the parser, so that the notation always
 * fits the parsed value. It is recursive, for texts of bounded depth.
 */
export function notationOf(json: string): Notation | undefined {
  const found = new Reader(json).value();
  return typeof found === "string" ? undefined : found;
}

type Members = Map<string, string | Notation>;

/** The map of all objects and arrays that have no member to note, which are most of them. Nobody writes to it. */
const NONE: Members = new Map();

function withMember(members: Members, key: string, member: string | Notation): Members {
  return (members === NONE ? new Map() : members).set(key, member);
}

class Reader {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  /** Passes the value that comes next, and returns what its text says beyond its parsed form. */
  value(): string | Notation | undefined {
    const first = this.#skipTo();
    if (first === OPEN_BRACE) return this.#object();
    if (first === OPEN_BRACKET) return this.#array();
    return this.#scalar(first);
  }

  #scalar(first: number): string | undefined {
    const start = this.#at;
    if (first === QUOTE) this.#passString();
    else this.#passPlain();
    if (first !== MINUS && !(first >= ZERO && first <= NINE)) return undefined;
    const text = this.#json.slice(start, this.#at);
    return isRestated(text) ? text : undefined;
  }

  #object(): Notation | undefined {
    const keys: string[] = [];
    let members = NONE;
    let hasIndex = false;
    this.#at += 1;
    while (this.#skipTo() !== CLOSE_BRACE) {
      const key = this.#key();
      keys.push(key);
      hasIndex ||= isIndexKey(key);
      const member = this.value();
      if (member !== undefined) members = withMember(members, key, member);
      else if (members !== NONE) members.delete(key);
    }
    this.#at += 1;
    if (!hasIndex && members.size === 0) return undefined;
    // A set keeps the first place of each.
    return { keys: hasIndex ? [...new Set(keys)] : undefined, members };
  }

  #array(): Notation | undefined {
    let members = NONE;
    this.#at += 1;
    for (let position = 0; this.#skipTo() !== CLOSE_BRACKET; position += 1) {
      const member = this.value();
      if (member !== undefined) members = withMember(members, String(position), member);
    }
    this.#at += 1;
    return members.size === 0 ? undefined : { keys: undefined, members };
  }

  #key(): string {
    const start = this.#at;
    this.#passString();
    const quoted = this.#json.slice(start, this.#at);
    return quoted.includes("\\") ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
  }

  /** Moves behind white space and separators. Returns the code of the character there, NaN at the end of the text. */
  #skipTo(): number {
    for (; ; this.#at += 1) {
      const code = this.#json.charCodeAt(this.#at);
      if (!((code >= TAB && code <= SPACE) || code === COMMA || code === COLON)) return code;
    }
  }

  /** Moves from the opening quote of a string to behind its closing one. */
  #passString(): void {
    let at = this.#at + 1;
    for (;;) {
      const quote = this.#json.indexOf('"', at);
      let unescaped = quote;
      while (unescaped > at && this.#json.charCodeAt(unescaped - 1) === BACKSLASH) unescaped -= 1;
      at = quote + 1;
      if ((quote - unescaped) % 2 === 0) break;
    }
    this.#at = at;
  }

  /** Moves behind a number or a literal, which end before a character that no number or literal holds. */
  #passPlain(): void {
    let code: number;
    do {
      this.#at += 1;
      code = this.#json.charCodeAt(this.#at);
    } while (code > SPACE && code !== COMMA && code !== CLOSE_BRACKET && code !== CLOSE_BRACE);
  }
}
