import {
  type Message,
  type Part,
  Role,
  type Tool,
  type ToolResultPart,
} from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import { PART_SEPARATOR, reasoningOf, textOf } from "./model-history.ts";
import { type StandIns, toTemplateValue } from "./template-json.ts";

export type TemplateMessage = Readonly<Record<string, unknown>>;

const ROLE: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: "system",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
};

export type ReasoningField = "reasoning_content" | "thinking";

export type TurnForm = {
  readonly historyArguments?: "value" | "text" | undefined;
  readonly historyReasoning?: ReasoningField | undefined;
};

export function toTemplateMessages(
  messages: readonly Message[],
  standIns: StandIns,
  form: TurnForm,
): readonly TemplateMessage[] {
  return messages.map(({ role, parts, name }) => {
    const [first] = parts;
    if (role === Role.TOOL && first?.kind?.$case === "toolResult") return resultOf(first.kind.value, standIns);
    const turn = role === Role.ASSISTANT ? turnOf(parts, standIns, form) : {};
    const named = name === undefined ? {} : { name: safe(name, standIns) };
    return { role: ROLE[role], content: safe(textOf(parts), standIns), ...named, ...turn };
  });
}

function resultOf({ content, callId, name }: ToolResultPart, standIns: StandIns): TemplateMessage {
  return {
    role: "tool",
    content: safe(textOf(content), standIns),
    tool_call_id: safe(callId, standIns),
    name: safe(name, standIns),
  };
}

/** Returns the tools in the template's form. Throws `EngineError` for a schema that is not a JSON object. */
export function toTemplateTools(tools: readonly Tool[], standIns: StandIns): readonly TemplateMessage[] {
  return tools.map((tool, index) => {
    const schema = tool.parametersJsonSchema === "" ? "{}" : tool.parametersJsonSchema;
    const parameters = toTemplateValue(schema, standIns);
    if (!(parameters instanceof Map)) {
      const field = `tools[${index}].parameters_json_schema`;
      throw new EngineError("INVALID_SCHEMA", `${field}: is not a JSON object.`, { field });
    }
    const description = tool.description === "" ? {} : { description: safe(tool.description, standIns) };
    return { type: "function", function: { name: safe(tool.name, standIns), ...description, parameters } };
  });
}

function turnOf(
  parts: readonly Part[],
  standIns: StandIns,
  { historyArguments, historyReasoning = "reasoning_content" }: TurnForm,
): TemplateMessage {
  const reasoning = reasoningOf(parts);
  const calls = parts.flatMap(({ kind }) => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    const value = toTemplateValue(argumentsJson === "" ? "{}" : argumentsJson, standIns);
    const text = safe(argumentsJson === "" ? "{}" : argumentsJson, standIns);
    const args = value instanceof Map && historyArguments !== "text" ? value : text;
    return [
      { id: safe(callId, standIns), type: "function", function: { name: safe(name, standIns), arguments: args } },
    ];
  });
  const called = calls.length > 0 ? { tool_calls: calls } : {};
  if (reasoning === "") return called;
  const text = textOf(parts);
  // Such a template renders the text of a turn with calls as reasoning, and refuses a turn with both.
  if (historyReasoning === "thinking" && calls.length > 0 && text !== "")
    return { content: "", thinking: safe(reasoning + PART_SEPARATOR + text, standIns), ...called };
  return { [historyReasoning]: safe(reasoning, standIns), ...called };
}

function safe(text: string, standIns: StandIns): string {
  return standIns.text(text);
}
