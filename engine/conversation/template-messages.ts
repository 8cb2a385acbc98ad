import { type Message, type Part, Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import { type JsonStandIns, toTemplateValue } from "./template-json.ts";

/** A message in the form that chat templates know: `role`, `content`, `tool_calls`, `reasoning_content` and so on. */
export type TemplateMessage = Readonly<Record<string, unknown>>;

const ROLE: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: "system",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
};

/** The rules of how a template wants to see earlier calls. */
export type HistoryRules = {
  /** Returns the id that the template is to see. */
  readonly callId: (callId: string) => string;
  /** Whether arguments are JSON text instead of a value. */
  readonly argumentsAsText: boolean;
};

const AS_THEY_ARE: HistoryRules = { callId: (callId) => callId, argumentsAsText: false };

/** The text between the texts of one message, as they are paragraphs of their own and not one word cut in two. */
export const PART_SEPARATOR = "\n";

/**
 * Returns the canonical messages as a template knows them. Each tool result becomes a `tool` message of its own;
 * redacted reasoning is left out, as nobody here can read it. Throws `EngineError` for what the model cannot take.
 */
export function toTemplateMessages(
  messages: readonly Message[],
  standIns: JsonStandIns,
  history: HistoryRules = AS_THEY_ARE,
): readonly TemplateMessage[] {
  return messages.flatMap((message, index) => {
    const path = `messages[${index}]`;
    const role = ROLE[message.role];
    if (role === undefined) throw new EngineError("INVALID_REQUEST", `${path}.role: is not set.`);
    const results = message.parts.flatMap((part, at) =>
      part.kind?.$case === "toolResult"
        ? [
            {
              role: "tool",
              content: safe(textOf(part.kind.value.content, `${path}.parts[${at}].content`), standIns),
              tool_call_id: safe(history.callId(part.kind.value.callId), standIns),
              name: safe(part.kind.value.name, standIns),
            },
          ]
        : [],
    );
    const rest = message.parts.filter((part) => part.kind?.$case !== "toolResult");
    if (rest.length === 0 && results.length > 0) return results;
    const content = safe(textOf(message.parts, `${path}.parts`), standIns);
    const name = message.name === undefined ? {} : { name: safe(message.name, standIns) };
    return [...results, { role, content, ...name, ...(role === "assistant" ? turnOf(rest, standIns, history) : {}) }];
  });
}

/** Returns the tools as a template knows them. Throws `EngineError` for a schema that is not a JSON object. */
export function toTemplateTools(tools: readonly Tool[], standIns: JsonStandIns): readonly TemplateMessage[] {
  return tools.map((tool, index) => {
    const schema = tool.parametersJsonSchema === "" ? "{}" : tool.parametersJsonSchema;
    const parameters = toTemplateValue(schema, "schema", standIns);
    if (!isObject(parameters)) {
      throw new EngineError("INVALID_SCHEMA", `tools[${index}].parameters_json_schema: is not a JSON object.`);
    }
    const description = tool.description === "" ? {} : { description: safe(tool.description, standIns) };
    return { type: "function", function: { name: safe(tool.name, standIns), ...description, parameters } };
  });
}

/** Returns the visible text of a message. Throws `EngineError` for images. */
export function textOf(parts: readonly Part[], path: string): string {
  const texts = parts.flatMap((part, index) => {
    if (part.kind?.$case === "image") {
      throw new EngineError("UNSUPPORTED_FEATURE", `${path}[${index}]: this model does not take images.`);
    }
    return part.kind?.$case === "text" ? [part.kind.value.text] : [];
  });
  return texts.join(PART_SEPARATOR);
}

function turnOf(parts: readonly Part[], standIns: JsonStandIns, history: HistoryRules): TemplateMessage {
  const reasoning = parts.flatMap(({ kind }) =>
    kind?.$case === "reasoning" && !kind.value.redacted && kind.value.text !== "" ? [kind.value.text] : [],
  );
  const calls = parts.flatMap(({ kind }) => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    const value = toTemplateValue(argumentsJson === "" ? "{}" : argumentsJson, "arguments", standIns);
    const text = safe(argumentsJson === "" ? "{}" : argumentsJson, standIns);
    const args = isObject(value) && !history.argumentsAsText ? value : text;
    return [
      {
        id: safe(history.callId(callId), standIns),
        type: "function",
        function: { name: safe(name, standIns), arguments: args },
      },
    ];
  });
  return {
    ...(reasoning.length > 0 ? { reasoning_content: safe(reasoning.join(PART_SEPARATOR), standIns) } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function safe(text: string, standIns: JsonStandIns): string {
  return standIns.text(text, false);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
