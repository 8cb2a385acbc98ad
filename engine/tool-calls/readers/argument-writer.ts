import type { JsonType } from "./argument-types.ts";
import { JsonScanner, type JsonScanState } from "./json-scanner.ts";
import { jsonOfPython } from "./python-literal.ts";

/** The maximum length of a held value, whose type is known only at its end, in UTF-16 units. */
const MAX_HELD_VALUE = 64 * 1024;

/** A value that may hold all arguments: decided when another value begins or none does. */
type Wrapper = {
  readonly key: string;
  readonly types: ReadonlySet<JsonType> | undefined;
  readonly declared: ReadonlySet<string>;
  readonly text: string;
};

type Value =
  /** In a string, which is sent as it arrives. */
  | { readonly kind: "text" }
  | { readonly kind: "held"; readonly types: ReadonlySet<JsonType> | undefined; readonly text: string }
  /** In JSON that is too long to be held. */
  | { readonly kind: "json"; readonly scanner: JsonScanner };

/**
 * Writes arguments that a model gave as keys and plain texts as one JSON object. The written text is always a prefix of
 * valid JSON. A value whose only type is string is sent as it arrives; others are JSON if they are JSON of an allowed
 * type, else strings.
 */
export class ArgumentWriter {
  #written = "";
  #count = 0;
  #value: Value = { kind: "text" };
  #isWhole = false;
  #wrapper: Wrapper | undefined;
  #object: JsonScanner | undefined;

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Begins the value of the next key; `types` are those of the schema, undefined for any. */
  startValue(key: string, types: ReadonlySet<JsonType> | undefined): void {
    this.#endWrapper();
    this.#startValue(key, types);
  }

  /**
   * Begins the value of a first key that may wrap all arguments: if it is the only one, and an object with only
   * `declared` members, that object is the arguments.
   */
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

  /** Adds to the value. Returns the consumed UTF-16 units: fewer than all if the rest would make it invalid JSON. */
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
    const room = MAX_HELD_VALUE - value.text.length;
    const held = value.text + text.slice(0, room);
    this.#value = { ...value, text: held };
    if (text.length < room) return text.length;
    this.letGo();
    return room + this.append(text.slice(room));
  }

  /**
   * Takes a piece of arguments that the model wrote as one JSON object; it is sent as it arrives, except for its last
   * brace, which `end` writes. `consumed` counts the UTF-16 units that belong to the object.
   */
  appendObject(text: string): { readonly consumed: number; readonly state: JsonScanState } {
    this.#object ??= new JsonScanner({ root: "object" });
    const { consumed, state } = this.#object.push(text);
    this.#written += text.slice(0, state === "complete" ? Math.max(0, consumed - 1) : consumed);
    return { consumed, state };
  }

  /** Ends the value. Returns false if it is not valid JSON. */
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
    this.#isWhole = true;
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

  /** Writes the held value before its type is certain. */
  letGo(): void {
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

  /** Writes a possible wrapper as an ordinary value; returns its consumed UTF-16 units. */
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

/** Returns the object in a wrapper, or in a string in it, as JSON text; undefined if it does not hold the arguments. */
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

/** Returns the text escaped for the inside of a JSON string. */
export function inString(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Returns a textual value as JSON of one of the types; undefined types allow any. */
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

/** Returns the JSON inside quotation marks where no string is allowed, if its type is allowed. */
function unquoted(text: string, type: JsonType, types: ReadonlySet<JsonType>): string | undefined {
  if (type !== "string") return undefined;
  const inner = String(JSON.parse(text)).trim();
  const innerType = jsonType(inner);
  if (innerType === undefined) return pythonValue(inner, types);
  return types.has(innerType) ? inner : undefined;
}

/**
 * Returns the JSON of a value printed by Python, of one of the types; undefined for other texts. Models learn this form
 * from templates that print values as Python does. Lists, objects and words in another case count only where no string
 * is allowed, because a text may look like one.
 */
function pythonValue(text: string, types: ReadonlySet<JsonType>): string | undefined {
  const mayBeText = types.has("string");
  const word = mayBeText ? text : `${text.charAt(0).toUpperCase()}${text.slice(1).toLowerCase()}`;
  if ((word === "None" || (word === "Null" && !mayBeText)) && types.has("null")) return "null";
  if ((word === "True" || word === "False") && types.has("boolean")) return word.toLowerCase();
  const json = mayBeText ? undefined : jsonOfPython(text);
  return json !== undefined && types.has(json.startsWith("{") ? "object" : "array") ? json : undefined;
}

/** Returns the type of a JSON text; undefined for other texts. */
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
