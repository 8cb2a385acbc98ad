import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, reasoning, result, system, text, user } from "../engine/canonical.ts";
import { SeededRandom } from "../seeded-random.ts";

export type GeneratedConversation = {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly reasoning: boolean;
};

type List<T> = readonly [T, ...T[]];

const TEXTS: List<string> = [
  "What is the weather in Oslo?",
  "Zażółć gęślą jaźń. 漢字 🙂 é",
  'He said "no" & left; it\'s <b>bold</b>.',
  "first line\n\n  second line\tend",
  "C:\\temp\\new and {{ braces }} {% percent %}",
  " space before and behind ",
  "line separator \u2028 and delete \u007f",
  "[1, 2] {\"a\": 'b'}",
  "True",
  "0",
];
const NAMES: List<string> = ["get_weather", "search", "run", "Lies_Datei"];
const KEYS: List<string> = ["city", "unit", "items", "keys", "values", "name", "type", "limit", "größe", "a b", "2"];
/** Numbers in the form of JSON that is also Python's form. */
const NUMBERS: List<string> = [
  ...(["0", "7", "-1", "1.0", "-2.5", "0.1", "100000.0", "1e-07", "1.5e+300", "12345678901234567890"] as const),
];
const TYPES: List<string> = ["string", "integer", "number", "boolean", "array", "object"];

export function generatedConversation(seed: number): GeneratedConversation {
  const made = new Generator(new SeededRandom(seed));
  return { messages: made.messages(), tools: made.tools(), reasoning: seed % 2 === 0 };
}

class Generator {
  readonly #random: SeededRandom;
  #calls = 0;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  messages(): readonly Message[] {
    const opening = this.#chance(60) ? [system(this.#text())] : [];
    const rounds = this.#some(1, 3, () => this.#round()).flat();
    const last = this.#chance(30) ? this.#calling() : [];
    return [...opening, ...rounds, user(this.#text()), ...last];
  }

  tools(): readonly Tool[] {
    if (this.#chance(30)) return [];
    return this.#some(1, 3, () => ({
      name: this.#random.pick(NAMES),
      description: this.#chance(80) ? this.#text() : "",
      parametersJsonSchema: this.#schema(2),
      strict: false,
      deferred: false,
      cacheBreakpoint: undefined,
    }));
  }

  #round(): readonly Message[] {
    const calls = this.#chance(60) ? this.#calling() : [];
    const thought = this.#chance(40) ? [reasoning(this.#text())] : [];
    return [user(this.#text()), ...calls, assistant(...thought, text(this.#text()))];
  }

  /** Returns a turn with tool calls, and their results. */
  #calling(): readonly Message[] {
    const thought = this.#chance(40) ? [reasoning(this.#text())] : [];
    const said = this.#chance(40) ? [text(this.#text())] : [];
    const calls = this.#some(1, 3, () => {
      this.#calls += 1;
      return { id: `call_${String(this.#calls).padStart(9, "0")}`, name: this.#random.pick(NAMES) };
    });
    const turn: readonly Part[] = calls.map(({ id, name }) => call(name, this.#object(2), id));
    const results = calls.map(({ id, name }): Message => {
      return { role: Role.TOOL, parts: [result(this.#chance(70) ? this.#text() : this.#object(1), name, id)] };
    });
    return [assistant(...thought, ...said, ...turn), ...results];
  }

  #schema(depth: number): string {
    const keys = this.#keys();
    const properties = keys.map((key) => `${JSON.stringify(key)}: ${this.#property(depth)}`);
    const required = keys.filter(() => this.#chance(50));
    return `{"type": "object", "properties": {${properties.join(", ")}}${this.#chance(70) ? `, "required": ${JSON.stringify(required)}` : ""}${this.#chance(20) ? ', "additionalProperties": false' : ""}}`;
  }

  #property(depth: number): string {
    if (depth > 0 && this.#chance(15)) return this.#schema(depth - 1);
    const type = this.#random.pick(TYPES);
    const fields = [`"type": ${this.#chance(85) ? `"${type}"` : `["${type}", "null"]`}`];
    if (this.#chance(60)) fields.push(`"description": ${JSON.stringify(this.#text())}`);
    if (this.#chance(30)) fields.push(`"default": ${this.#value(1)}`);
    if (this.#chance(20)) fields.push(`"enum": [${this.#some(1, 3, () => this.#scalar()).join(", ")}]`);
    if (type === "array") fields.push('"items": {"type": "string"}');
    return `{${fields.join(", ")}}`;
  }

  #object(depth: number): string {
    const members = this.#keys().map((key) => `${JSON.stringify(key)}: ${this.#value(depth)}`);
    return `{${members.join(", ")}}`;
  }

  #value(depth: number): string {
    if (depth > 0 && this.#chance(20)) return this.#object(depth - 1);
    if (depth > 0 && this.#chance(20)) return `[${this.#some(0, 3, () => this.#value(depth - 1)).join(", ")}]`;
    return this.#scalar();
  }

  #scalar(): string {
    if (this.#chance(45)) return JSON.stringify(this.#text());
    return this.#chance(50) ? this.#random.pick(NUMBERS) : this.#random.pick(["true", "false", "null"]);
  }

  #keys(): readonly string[] {
    return [...new Set(this.#some(0, 4, () => this.#random.pick(KEYS)))];
  }

  #text(): string {
    return this.#random.pick(TEXTS);
  }

  #some<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.#random.below(most - least + 1) }, make);
  }

  #chance(percent: number): boolean {
    return this.#random.below(100) < percent;
  }
}
