import {
  type Message,
  type Part,
  Role,
  type Tool,
  type ToolResultPart,
} from "../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../errors.ts";
import { IN_LINE, type JsonOptions, pythonJson } from "../jinja/operators.ts";
import { JsonNumber, toValue } from "../jinja/values.ts";
import { PART_SEPARATOR, reasoningOf, textOf } from "./model-history.ts";

/** Deeper values would exhaust the stack of the template's interpreter. */
const MAX_DEPTH = 100;

export type StandIn = (text: string) => string;

/** JSON text as a template value: numbers keep their digits, objects their order. Undefined if invalid or too deep. */
export function toTemplateValue(json: string, standIn: StandIn): unknown {
  // Checked before parsing: a parser takes seconds for millions of brackets.
  if (isTooDeep(json) || !isJson(json)) return undefined;
  return new JsonReader(json, standIn).value();
}

class JsonReader {
  readonly #json: string;
  readonly #standIn: StandIn;
  readonly #lexemes: Iterator<Lexeme, void, void>;
  #next: Lexeme | undefined;

  constructor(json: string, standIn: StandIn) {
    this.#json = json;
    this.#standIn = standIn;
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
    return this.#standIn(JSON.parse(lexeme));
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

/** Returns a template value as Python's `json.dumps` writes it in one line, without escapes for other alphabets. */
export function templateJson(value: unknown, options: Partial<JsonOptions> = {}): string {
  return pythonJson(toValue(value), {
    ...{ indent: undefined, separators: IN_LINE, sortKeys: false, ascii: false },
    ...options,
  });
}

/** A call of an earlier turn; arguments that are no JSON object are text. */
export type TemplateCall = {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: ReadonlyMap<string, unknown> | string };
};

export type TemplateMessage = {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
  readonly reasoning_content?: string;
  readonly thinking?: string;
  readonly tool_calls?: readonly TemplateCall[];
  readonly tool_call_id?: string;
};

export type TemplateTool = {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: ReadonlyMap<string, unknown>;
  };
};

export type TemplateVariables = Readonly<Record<string, string | number | boolean>>;

export const ROLE: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: "system",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
};

export type ReasoningField = "reasoning_content" | "thinking";

type TurnForm = {
  readonly historyArguments?: "value" | "text" | undefined;
  readonly historyReasoning?: ReasoningField | undefined;
};

export function toTemplateMessages(
  messages: readonly Message[],
  standIn: StandIn,
  form: TurnForm,
): readonly TemplateMessage[] {
  return messages.map(({ role, parts, name }) => {
    const [first] = parts;
    if (role === Role.TOOL && first?.kind?.$case === "toolResult") return resultOf(first.kind.value, standIn);
    const turn = role === Role.ASSISTANT ? turnOf(parts, standIn, form) : {};
    const named = name === undefined ? {} : { name: standIn(name) };
    return { role: ROLE[role] ?? "", content: standIn(textOf(parts)), ...named, ...turn };
  });
}

function resultOf({ content, callId, name }: ToolResultPart, standIn: StandIn): TemplateMessage {
  return {
    role: "tool",
    content: standIn(textOf(content)),
    tool_call_id: standIn(callId),
    name: standIn(name),
  };
}

/**
 * Returns the tools that are not deferred, in the template's form. Throws `EngineError` for a schema that is not a JSON
 * object.
 */
export function toTemplateTools(tools: readonly Tool[], standIn: StandIn): readonly TemplateTool[] {
  return tools.flatMap((tool, index) => {
    if (tool.deferred) return [];
    const parameters = toTemplateValue(schemaOf(tool), standIn);
    if (!(parameters instanceof Map)) throw notAnObject(index);
    // Always there: vLLM would add an empty one to a tool without, so that engines would have different prompts.
    const described = { name: standIn(tool.name), description: standIn(tool.description) };
    return [{ type: "function", function: { ...described, parameters } }];
  });
}

/** Returns the exact text of a tool's schema. Throws `EngineError` if it is not a JSON object. */
export function parametersOf(tool: Tool, index: number): string {
  const schema = schemaOf(tool);
  if (!/^\s*\{/.test(schema) || isTooDeep(schema) || !isJson(schema)) throw notAnObject(index);
  return schema;
}

function schemaOf({ parametersJsonSchema }: Tool): string {
  return parametersJsonSchema === "" ? "{}" : parametersJsonSchema;
}

function notAnObject(index: number): EngineError {
  const field = `tools[${index}].parameters_json_schema`;
  return new EngineError("INVALID_SCHEMA", `${field}: is not a JSON object.`, { field });
}

function turnOf(
  parts: readonly Part[],
  standIn: StandIn,
  { historyArguments, historyReasoning = "reasoning_content" }: TurnForm,
): Partial<TemplateMessage> {
  const reasoning = reasoningOf(parts);
  const calls = parts.flatMap(({ kind }): TemplateCall[] => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    const value = toTemplateValue(argumentsJson === "" ? "{}" : argumentsJson, standIn);
    const text = standIn(argumentsJson === "" ? "{}" : argumentsJson);
    const args = value instanceof Map && historyArguments !== "text" ? value : text;
    return [{ id: standIn(callId), type: "function", function: { name: standIn(name), arguments: args } }];
  });
  const called = calls.length > 0 ? { tool_calls: calls } : {};
  if (reasoning === "") return called;
  const text = textOf(parts);
  // Such a template renders the text of a turn with calls as reasoning, and refuses a turn with both.
  if (historyReasoning === "thinking" && calls.length > 0 && text !== "")
    return { content: "", thinking: standIn(reasoning + PART_SEPARATOR + text), ...called };
  return { [historyReasoning]: standIn(reasoning), ...called };
}
