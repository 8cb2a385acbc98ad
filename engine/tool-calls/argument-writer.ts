import type { JsonType } from "./argument-types.ts";
import { JsonScanner, type JsonScanState } from "./json-scanner.ts";

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

const MAX_HELD_VALUE = 64 * 1024;

/** A value that may hold all arguments: decided when another value begins or none does. */
type Wrapper = {
  readonly key: string;
  readonly types: ReadonlySet<JsonType> | undefined;
  readonly declared: ReadonlySet<string>;
  readonly text: string;
};

type Value =
  | { readonly kind: "text" }
  | { readonly kind: "held"; readonly types: ReadonlySet<JsonType> | undefined; readonly text: string }
  | { readonly kind: "json"; readonly scanner: JsonScanner };

/** Writes keys and plain texts as one JSON object, always a prefix of valid JSON. */
export class ArgumentWriter {
  #written = "";
  #count = 0;
  #value: Value = { kind: "text" };
  isWhole = false;
  #wrapper: Wrapper | undefined;
  #object: JsonScanner | undefined;

  startValue(key: string, types: ReadonlySet<JsonType> | undefined): void {
    this.#endWrapper();
    this.#startValue(key, types);
  }

  /** A first key that wraps all arguments if it is the only one and its object has only `declared` members. */
  startWrapper(key: string, types: ReadonlySet<JsonType> | undefined, declared: ReadonlySet<string>): void {
    this.#wrapper = { key, types, declared, text: "" };
  }

  #startValue(key: string, types: ReadonlySet<JsonType> | undefined): void {
    this.#written += `${this.#count === 0 ? "{" : ", "}${JSON.stringify(key)}: `;
    this.#count += 1;
    const isText = types?.size === 1 && types.has("string");
    this.#value = isText ? { kind: "text" } : { kind: "held", types, text: "" };
    if (isText) this.#written += '"';
  }

  /** Returns the consumed UTF-16 units: fewer than all if the rest would make it invalid JSON. */
  append(text: string): number {
    const wrapper = this.#wrapper;
    if (wrapper !== undefined) {
      const whole = wrapper.text + text;
      this.#wrapper = { ...wrapper, text: whole };
      if (whole.length <= MAX_HELD_VALUE) return text.length;
      return Math.max(0, text.length - (whole.length - this.#releaseWrapper()));
    }
    const value = this.#value;
    if (value.kind === "text") {
      this.#written += inString(text);
      return text.length;
    }
    if (value.kind === "json") return this.#appendJson(value.scanner, text);
    const free = MAX_HELD_VALUE - value.text.length;
    const held = value.text + text.slice(0, free);
    this.#value = { ...value, text: held };
    if (text.length < free) return text.length;
    this.writeHeld();
    return free + this.append(text.slice(free));
  }

  /** `consumed` counts the UTF-16 units of the object, whose last brace `end` writes. */
  appendObject(text: string): { readonly consumed: number; readonly state: JsonScanState } {
    this.#object ??= new JsonScanner({ root: "object" });
    const { consumed, state } = this.#object.push(text);
    this.#written += text.slice(0, state === "complete" ? Math.max(0, consumed - 1) : consumed);
    return { consumed, state };
  }

  endValue(): boolean {
    if (this.#wrapper !== undefined) return true;
    const value = this.#value;
    this.#value = { kind: "text" };
    if (value.kind === "held") this.#written += jsonOf(value.text, value.types);
    else if (value.kind === "text") this.#written += '"';
    else return value.scanner.isWhole;
    return true;
  }

  end(): void {
    this.isWhole = true;
    const unwrapped = this.#wrapper && unwrap(this.#wrapper);
    if (unwrapped !== undefined) {
      this.#written += unwrapped;
      return;
    }
    this.#endWrapper();
    this.#written += this.#count === 0 && this.#object === undefined ? "{}" : "}";
  }

  take(): string {
    const written = this.#written;
    this.#written = "";
    return written;
  }

  writeHeld(): void {
    this.#releaseWrapper();
    if (this.#value.kind !== "held") return;
    const { text } = this.#value;
    const scanner = new JsonScanner({ root: "any" });
    const { consumed, state } = scanner.push(text);
    const isJson = state !== "invalid" && text.slice(consumed).trim() === "";
    this.#value = isJson ? { kind: "json", scanner } : { kind: "text" };
    this.#written += isJson ? text : `"${inString(text)}`;
  }

  #endWrapper(): void {
    if (this.#wrapper === undefined) return;
    this.#releaseWrapper();
    this.endValue();
  }

  #releaseWrapper(): number {
    const wrapper = this.#wrapper;
    if (wrapper === undefined) return 0;
    this.#wrapper = undefined;
    this.#startValue(wrapper.key, wrapper.types);
    return this.append(wrapper.text);
  }

  #appendJson(scanner: JsonScanner, text: string): number {
    const { consumed } = scanner.push(text);
    this.#written += text.slice(0, consumed);
    return text.slice(consumed).trim() === "" ? text.length : consumed;
  }
}

function unwrap({ text, declared }: Wrapper): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const json = typeof value === "string" ? value : text;
    const inner: unknown = typeof value === "string" ? JSON.parse(value) : value;
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return undefined;
    return Object.keys(inner).every((key) => declared.has(key)) ? json.trim() : undefined;
  } catch {
    return undefined;
  }
}

/** Booleans that models write as numbers where the schema allows no number. */
const TRUTH: ReadonlyMap<string, string> = new Map([
  ["1", "true"],
  ["0", "false"],
]);

export function inString(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

export function jsonOf(text: string, types: ReadonlySet<JsonType> | undefined): string {
  const trimmed = text.trim();
  const type = jsonType(trimmed);
  if (type !== undefined && (types === undefined || types.has(type))) return trimmed;
  const python = types === undefined || type !== undefined ? undefined : pythonValue(trimmed, types);
  if (python !== undefined) return python;
  const mustBeOther = type !== undefined && types !== undefined && !types.has("string");
  if (mustBeOther && type === "number" && types.has("boolean")) return TRUTH.get(trimmed) ?? trimmed;
  return mustBeOther ? (unquoted(trimmed, type, types) ?? trimmed) : JSON.stringify(text);
}

function unquoted(text: string, type: JsonType, types: ReadonlySet<JsonType>): string | undefined {
  if (type !== "string") return undefined;
  const inner = String(JSON.parse(text)).trim();
  const innerType = jsonType(inner);
  if (innerType === undefined) return pythonValue(inner, types);
  return types.has(innerType) ? inner : undefined;
}

/**
 * Python's print of a value as JSON, of one of the types. Models learn it from templates; lists, objects and words in
 * another case count only where no string is allowed.
 */
function pythonValue(text: string, types: ReadonlySet<JsonType>): string | undefined {
  const mayBeText = types.has("string");
  const word = mayBeText ? text : `${text.charAt(0).toUpperCase()}${text.slice(1).toLowerCase()}`;
  if ((word === "None" || (word === "Null" && !mayBeText)) && types.has("null")) return "null";
  if ((word === "True" || word === "False") && types.has("boolean")) return word.toLowerCase();
  const json = mayBeText ? undefined : jsonOfPython(text);
  return json !== undefined && types.has(json.startsWith("{") ? "object" : "array") ? json : undefined;
}

function jsonType(text: string): JsonType | undefined {
  const scanner = new JsonScanner({ root: "any" });
  const { consumed } = scanner.push(text);
  if (!scanner.isWhole || consumed < text.length) return undefined;
  const first = text.charAt(0);
  if (first === "{") return "object";
  if (first === "[") return "array";
  if (first === '"') return "string";
  if (first === "n") return "null";
  return first === "t" || first === "f" ? "boolean" : "number";
}
