import { JsonNumber } from "./jinja/values.ts";

/** Deeper values would exhaust the stack of the template's interpreter. */
const MAX_DEPTH = 100;

export type StandIns = {
  readonly text: (text: string) => string;
};

/** JSON text as a template value: numbers keep their digits, objects their order. Undefined if invalid or too deep. */
export function toTemplateValue(json: string, standIns: StandIns): unknown {
  // Checked before parsing: a parser takes seconds for millions of brackets.
  if (isTooDeep(json) || !isJson(json)) return undefined;
  return new JsonReader(json, standIns).value();
}

class JsonReader {
  readonly #json: string;
  readonly #standIns: StandIns;
  readonly #lexemes: Iterator<Lexeme, void, void>;
  #next: Lexeme | undefined;

  constructor(json: string, standIns: StandIns) {
    this.#json = json;
    this.#standIns = standIns;
    this.#lexemes = lexemes(json);
    this.#take();
  }

  value(): unknown {
    const lexeme = this.#take();
    const first = lexeme[0];
    if (first === "{") return this.#object();
    if (first === "[") return this.#list();
    if (first === '"') return this.#text(lexeme);
    return WORDS.has(lexeme) ? WORDS.get(lexeme) : new JsonNumber(lexeme);
  }

  #object(): ReadonlyMap<string, unknown> {
    const members = new Map<string, unknown>();
    while (!this.#ends("}")) {
      const key = this.#text(this.#take());
      members.set(key, this.value());
    }
    return members;
  }

  #list(): readonly unknown[] {
    const items: unknown[] = [];
    while (!this.#ends("]")) items.push(this.value());
    return items;
  }

  #text(lexeme: string): string {
    return this.#standIns.text(JSON.parse(lexeme));
  }

  #ends(bracket: string): boolean {
    const isEnd = this.#next !== undefined && this.#json[this.#next.from] === bracket;
    if (isEnd) this.#take();
    return isEnd;
  }

  #take(): string {
    const taken = this.#next;
    this.#next = this.#lexemes.next().value ?? undefined;
    return taken ? this.#json.slice(taken.from, taken.to) : "";
  }
}

const WORDS: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["false", false],
  ["null", null],
]);

type Lexeme = { readonly from: number; readonly to: number };

/** Strings are not matched by a regular expression: millions of escapes would exhaust its stack. */
function* lexemes(json: string): Generator<Lexeme, void, void> {
  const starts = /["[\]{}]|-?\d[\d.eE+-]*|true|false|null/g;
  for (let found = starts.exec(json); found; found = starts.exec(json)) {
    const from = found.index;
    if (found[0] === '"') starts.lastIndex = endOfString(json, from);
    yield { from, to: starts.lastIndex };
  }
}

/** Returns the end of the string whose opening quote is at `from`; the end of the text if it is not closed. */
function endOfString(json: string, from: number): number {
  for (let at = json.indexOf('"', from + 1); at >= 0; at = json.indexOf('"', at + 1)) {
    let escapes = 0;
    while (json[at - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
  return json.length;
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
