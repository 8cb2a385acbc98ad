const MAX_DEPTH = 64;

const SPACE = /[ \t\r\n]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y;
const WORD = /(?:True|False|None|true|false|null)(?!\w)/y;
const STRING = /'((?:[^'\\\n]|\\[^\n])*)'|"((?:[^"\\\n]|\\[^\n])*)"/y;
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))/gs;

const WORDS: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };
const ESCAPES: Readonly<Record<string, string>> = {
  "\\": "\\",
  "'": "'",
  '"': '"',
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
};

/** Python's other escapes, which are rejected. A backslash before any other character is kept. */
const OTHER_ESCAPES = "01234567avxuUN";

/** A whole Python list or dict as JSON; undefined for other texts. Keys must be strings, a tuple becomes a list. */
export function jsonOfPython(text: string): string | undefined {
  const literal = new PythonLiteral(text);
  return /^\s*[[{(]/.test(text) ? literal.whole() : undefined;
}

class PythonLiteral {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): string | undefined {
    const json = this.#value(0);
    this.#match(SPACE);
    return this.#at === this.#text.length ? json : undefined;
  }

  #value(depth: number): string | undefined {
    this.#match(SPACE);
    const char = this.#text.charAt(this.#at);
    if (char === "{") return this.#entries("{", "}", depth);
    if (char === "[") return this.#entries("[", "]", depth);
    if (char === "(") return this.#entries("(", ")", depth);
    if (char === "'" || char === '"') return this.#string();
    const word = this.#match(WORD)?.[0];
    if (word !== undefined) return WORDS[word] ?? word;
    const number = this.#match(NUMBER)?.[0];
    return number !== undefined && Number.isFinite(Number(number)) ? number : undefined;
  }

  #entries(open: string, close: string, depth: number): string | undefined {
    if (depth >= MAX_DEPTH || !this.#takes(open)) return undefined;
    const written: string[] = [];
    while (!this.#takes(close)) {
      const entry = open === "{" ? this.#member(depth) : this.#value(depth + 1);
      if (entry === undefined) return undefined;
      written.push(entry);
      const isTuple = open !== "(" || written.length > 1;
      if (this.#takes(",")) continue;
      // Parentheses around one value are not a tuple.
      if (!isTuple || !this.#takes(close)) return undefined;
      break;
    }
    return open === "{" ? `{${written.join(", ")}}` : `[${written.join(", ")}]`;
  }

  #member(depth: number): string | undefined {
    this.#match(SPACE);
    const key = this.#string();
    const value = key !== undefined && this.#takes(":") ? this.#value(depth + 1) : undefined;
    return value === undefined ? undefined : `${key}: ${value}`;
  }

  #string(): string | undefined {
    const found = this.#match(STRING);
    if (found === undefined) return undefined;
    let isRead = true;
    const text = (found[1] ?? found[2] ?? "").replace(ESCAPE, (all, byte?: string, unit?: string, char = "") => {
      isRead &&= !OTHER_ESCAPES.includes(char) || char === "";
      const code = byte ?? unit;
      return code === undefined ? (ESCAPES[char] ?? all) : String.fromCharCode(Number.parseInt(code, 16));
    });
    return isRead ? JSON.stringify(text) : undefined;
  }

  #takes(char: string): boolean {
    this.#match(SPACE);
    if (this.#text.charAt(this.#at) !== char) return false;
    this.#at += 1;
    return true;
  }

  #match(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#text) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }
}
