/** The depth beyond which values would exhaust the stack of the template's interpreter. */
const MAX_DEPTH = 100;

/**
 * The names that the template's interpreter knows as methods of an object. It looks for a key first, where Python's
 * Jinja takes the method: an argument called `items` would end every template that says `arguments.items()`.
 */
const METHODS: ReadonlySet<string> = new Set(["get", "items", "keys", "values", "dictsort"]);
/** The keywords of JSON Schema under which the keys are names of the caller's. */
const NAMES_UNDER: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);

/** The kind of a JSON text: in arguments every key is a name of the caller's, in a schema most are keywords. */
export type JsonKind = "arguments" | "schema";

/** The stand-ins for values while the template is rendered; both functions return a string. */
export type JsonStandIns = {
  /** Returns what stands in for a string or a key; `always` asks for a placeholder even where the text is harmless. */
  readonly text: (text: string, always: boolean) => string;
  /** Returns what stands in for a number that JavaScript would write differently. */
  readonly number: (lexeme: string) => string;
};

/**
 * Returns a JSON text as a value for a template that will write it as JSON again, without what JavaScript does to JSON
 * on the way: large and oddly written numbers keep their digits, keys that look like numbers keep their place. Names of
 * the caller's that the interpreter would take for a method of its own are held by placeholders. `undefined` when the
 * text is not JSON or nested too deep.
 */
export function toTemplateValue(json: string, kind: JsonKind, standIns: JsonStandIns): unknown {
  // Before anything is parsed: a parser takes seconds for millions of brackets.
  if (isTooDeep(json) || !isJson(json)) return undefined;
  const writer = new TemplateJson(kind, standIns);
  for (const { from, to } of lexemes(json)) writer.take(json, from, to);
  return JSON.parse(writer.end(json));
}

/** Writes a JSON text anew, lexeme by lexeme, with what stands in for its strings and numbers. */
class TemplateJson {
  readonly #standIns: JsonStandIns;
  readonly #keysAreNames: boolean;
  readonly #written: string[] = [];
  #copied = 0;
  /** For each of the open objects and lists, outermost first: whether the keys in it are names of the caller's. */
  readonly #open: boolean[] = [];
  #key = "";

  constructor(kind: JsonKind, standIns: JsonStandIns) {
    this.#keysAreNames = kind === "arguments";
    this.#standIns = standIns;
  }

  /** Takes the lexeme that stands in `json` at `from`, up to before `to`. */
  take(json: string, from: number, to: number): void {
    const first = json[from];
    if (first === '"') {
      const text: string = JSON.parse(json.slice(from, to));
      const isKey = isBehind(json, to, ":");
      if (isKey) this.#key = text;
      this.#write(json, from, to, this.#standIns.text(text, isKey && this.#isMoved(text)));
    } else if (first === "{" || first === "[") {
      this.#open.push(this.#keysAreNames || (this.#open.at(-1) === false && NAMES_UNDER.has(this.#key)));
      this.#key = "";
    } else if (first === "}" || first === "]") {
      this.#open.pop();
      this.#key = "";
    } else {
      const lexeme = json.slice(from, to);
      if (String(Number(lexeme)) !== lexeme) this.#write(json, from, to, this.#standIns.number(lexeme));
    }
  }

  /** Returns the whole text when all lexemes have been taken. */
  end(json: string): string {
    this.#written.push(json.slice(this.#copied));
    return this.#written.join("");
  }

  #write(json: string, from: number, to: number, text: string): void {
    this.#written.push(json.slice(this.#copied, from), JSON.stringify(text));
    this.#copied = to;
  }

  #isMoved(name: string): boolean {
    return /^\d+$/.test(name) || name === "__proto__" || (METHODS.has(name) && this.#open.at(-1) === true);
  }
}

/** A stretch of a JSON text, in UTF-16 units; `to` is exclusive. */
type Lexeme = { readonly from: number; readonly to: number };

/**
 * Finds the strings, numbers and brackets of a JSON text, in order. Without a regular expression for strings: one with
 * millions of escapes would exhaust its stack.
 */
function* lexemes(json: string): Generator<Lexeme, void, void> {
  const starts = /["[\]{}]|-?\d[\d.eE+-]*/g;
  for (let found = starts.exec(json); found; found = starts.exec(json)) {
    const from = found.index;
    if (found[0] === '"') starts.lastIndex = endOfString(json, from);
    yield { from, to: starts.lastIndex };
  }
}

/** Returns where the string ends whose opening quote stands at `from`; the end of the text where it does not end. */
function endOfString(json: string, from: number): number {
  for (let at = json.indexOf('"', from + 1); at >= 0; at = json.indexOf('"', at + 1)) {
    let escapes = 0;
    while (json[at - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
  return json.length;
}

function isBehind(json: string, at: number, mark: string): boolean {
  let next = at;
  while (/\s/.test(json[next] ?? "")) next += 1;
  return json[next] === mark;
}

function isTooDeep(json: string): boolean {
  let depth = 0;
  for (const { from } of lexemes(json)) {
    const unit = json[from];
    if (unit === "{" || unit === "[") depth += 1;
    else if (unit === "}" || unit === "]") depth -= 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
