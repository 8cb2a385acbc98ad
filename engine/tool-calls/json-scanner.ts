const ESCAPE = /\\(?:["\\/bfnrt]|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4})/y;
const BEGUN_ESCAPE = /\\(?:u(?:[\da-fA-F]{0,3}|[dD][89abAB][\da-fA-F]{2}(?:\\(?:u[\da-fA-F]{0,3})?)?))?$/y;
const HALF_PAIR = /^\\u[dD][89a-fA-F]..$/;

/** A character or escape, the closing quote, or text that is incomplete or invalid. `length` is in UTF-16 units. */
type StringUnit =
  | { readonly kind: "text"; readonly text: string; readonly length: number }
  | { readonly kind: "end"; readonly length: 1 }
  | { readonly kind: "needs-more" }
  | { readonly kind: "invalid" };

/** A surrogate pair of `\u` escapes is one unit; an escape of half a pair has no UTF-8 form and stays as written. */
export function readStringUnit(text: string, at: number): StringUnit {
  const char = text.charAt(at);
  if (char === "") return { kind: "needs-more" };
  if (char === '"') return { kind: "end", length: 1 };
  if (char < " ") return { kind: "invalid" };
  if (char !== "\\") {
    const whole = String.fromCodePoint(text.codePointAt(at) ?? 0);
    return { kind: "text", text: whole, length: whole.length };
  }
  BEGUN_ESCAPE.lastIndex = at;
  if (BEGUN_ESCAPE.test(text)) return { kind: "needs-more" };
  ESCAPE.lastIndex = at;
  const written = ESCAPE.exec(text)?.[0];
  if (written === undefined) return { kind: "invalid" };
  const decoded = HALF_PAIR.test(written) ? written : String(JSON.parse(`"${written}"`));
  return { kind: "text", text: decoded, length: written.length };
}

export type JsonScanState = "incomplete" | "complete" | "invalid";

type Position =
  | "value"
  | "first-item"
  | "first-key"
  | "key"
  | "colon"
  | "after-value"
  | "string"
  | "escape"
  | "hex"
  | "literal"
  | "number-minus"
  | "number-zero"
  | "number-digits"
  | "number-point"
  | "number-fraction"
  | "number-exponent"
  | "number-exponent-sign"
  | "number-exponent-digits"
  | "done"
  | "invalid";

const LITERALS: Readonly<Record<string, string>> = { t: "rue", f: "alse", n: "ull" };
const DEFAULT_MAX_DEPTH = 512;
export const ESCAPED = '"\\/bfnrt';

export const isSpace = (char: string) => char === " " || char === "\n" || char === "\t" || char === "\r";
const isDigit = (char: string) => char >= "0" && char <= "9";
const isHex = (char: string) => isDigit(char) || (char >= "a" && char <= "f") || (char >= "A" && char <= "F");

/**
 * Validates one JSON value (RFC 8259) as its text arrives; the consumed text is always a prefix of a valid value. A
 * top-level number ends only with the character after it.
 */
export class JsonScanner {
  readonly #root: "any" | "object";
  readonly #maxDepth: number;
  readonly #isLoose: boolean;
  readonly #open: ("object" | "array")[] = [];
  #position: Position = "value";
  #literal = "";
  #hexDigitsLeft = 0;
  #stringIsKey = false;

  /** With `isLoose` strings may contain control characters, and a backslash any character. */
  constructor(options: { readonly root: "any" | "object"; readonly maxDepth?: number; readonly isLoose?: boolean }) {
    this.#root = options.root;
    this.#maxDepth = options.maxDepth ?? DEFAULT_MAX_DEPTH;
    this.#isLoose = options.isLoose ?? false;
  }

  /** Takes the next piece. `consumed` counts its UTF-16 units that belong to the value. */
  push(text: string): { readonly consumed: number; readonly state: JsonScanState } {
    let at = 0;
    while (at < text.length && this.#position !== "done" && this.#position !== "invalid") {
      if (this.#step(text.charAt(at))) at += 1;
    }
    return { consumed: at, state: this.#state() };
  }

  /** Whether the text so far is a complete value: `complete`, or a number that may end here. */
  get isWhole(): boolean {
    return this.#position === "done" || (this.#open.length === 0 && this.#numberMayEnd());
  }

  #state(): JsonScanState {
    if (this.#position === "done") return "complete";
    return this.#position === "invalid" ? "invalid" : "incomplete";
  }

  #step(char: string): boolean {
    switch (this.#position) {
      case "value":
        return isSpace(char) || this.#startValue(char);
      case "first-item":
        return isSpace(char) || (char === "]" ? this.#close() : this.#startValue(char));
      case "first-key":
        return isSpace(char) || (char === "}" ? this.#close() : this.#startKey(char));
      case "key":
        return isSpace(char) || this.#startKey(char);
      case "colon":
        return isSpace(char) || this.#go(char === ":", "value");
      case "after-value":
        return isSpace(char) || this.#afterValue(char);
      case "string":
        return this.#inString(char);
      case "escape":
        return this.#inEscape(char);
      case "hex":
        this.#hexDigitsLeft -= 1;
        return this.#go(isHex(char), this.#hexDigitsLeft === 0 ? "string" : "hex");
      case "literal":
        return this.#inLiteral(char);
      case "done":
      case "invalid":
        return false;
      default:
        return this.#inNumber(char);
    }
  }

  #go(allowed: boolean, next: Position): boolean {
    this.#position = allowed ? next : "invalid";
    return allowed;
  }

  #startValue(char: string): boolean {
    const opens = char === "{" ? "object" : char === "[" ? "array" : undefined;
    if (this.#open.length === 0 && this.#root === "object" && opens !== "object") return this.#go(false, "invalid");
    if (opens !== undefined) {
      if (this.#open.length >= this.#maxDepth) return this.#go(false, "invalid");
      this.#open.push(opens);
      return this.#go(true, opens === "object" ? "first-key" : "first-item");
    }
    if (char === '"') {
      this.#stringIsKey = false;
      return this.#go(true, "string");
    }
    if (char === "-") return this.#go(true, "number-minus");
    if (char === "0") return this.#go(true, "number-zero");
    if (isDigit(char)) return this.#go(true, "number-digits");
    this.#literal = LITERALS[char] ?? "";
    return this.#go(this.#literal !== "", "literal");
  }

  #startKey(char: string): boolean {
    this.#stringIsKey = true;
    return this.#go(char === '"', "string");
  }

  #close(): boolean {
    this.#open.pop();
    return this.#valueEnded();
  }

  #valueEnded(): true {
    this.#position = this.#open.length === 0 ? "done" : "after-value";
    return true;
  }

  #afterValue(char: string): boolean {
    const inside = this.#open.at(-1);
    if (char === ",") return this.#go(true, inside === "object" ? "key" : "value");
    if (char === (inside === "object" ? "}" : "]")) return this.#close();
    return this.#go(false, "invalid");
  }

  #inString(char: string): boolean {
    if (char === '"') return this.#stringIsKey ? this.#go(true, "colon") : this.#valueEnded();
    if (char === "\\") return this.#go(true, "escape");
    return this.#go(this.#isLoose || char >= " ", "string");
  }

  #inEscape(char: string): boolean {
    if (char === "u") {
      this.#hexDigitsLeft = 4;
      return this.#go(true, "hex");
    }
    return this.#go(this.#isLoose || ESCAPED.includes(char), "string");
  }

  #inLiteral(char: string): boolean {
    if (char !== this.#literal.charAt(0)) return this.#go(false, "invalid");
    this.#literal = this.#literal.slice(1);
    return this.#literal === "" ? this.#valueEnded() : true;
  }

  #numberMayEnd(): boolean {
    const at = this.#position;
    return (
      at === "number-zero" || at === "number-digits" || at === "number-fraction" || at === "number-exponent-digits"
    );
  }

  #inNumber(char: string): boolean {
    const next = this.#nextInNumber(char);
    if (next !== undefined) return this.#go(true, next);
    if (this.#numberMayEnd()) {
      this.#valueEnded();
      return false;
    }
    return this.#go(false, "invalid");
  }

  #nextInNumber(char: string): Position | undefined {
    const at = this.#position;
    if (isDigit(char)) {
      if (at === "number-minus") return char === "0" ? "number-zero" : "number-digits";
      if (at === "number-digits" || at === "number-fraction" || at === "number-exponent-digits") return at;
      if (at === "number-point") return "number-fraction";
      return at === "number-zero" ? undefined : "number-exponent-digits";
    }
    const afterInteger = at === "number-zero" || at === "number-digits";
    if (char === ".") return afterInteger ? "number-point" : undefined;
    if (char === "e" || char === "E") return afterInteger || at === "number-fraction" ? "number-exponent" : undefined;
    return (char === "+" || char === "-") && at === "number-exponent" ? "number-exponent-sign" : undefined;
  }
}
