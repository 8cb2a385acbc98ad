import {
  ImageDetail,
  type Message,
  type Part,
  Role,
  type Tool,
} from "../../../../proto/gen/svc/inference/v1/messages.ts";
import {
  type HistoryPart,
  type HistoryRules,
  modelHistory,
  PART_SEPARATOR,
  reasoningOf,
} from "../../../conversation/history/model-history.ts";
import { ROLE } from "../../../conversation/history/template-messages.ts";
import { EngineError } from "../../../errors.ts";
import { DataUrl, type JsonValue, rawObject } from "../http/raw-json.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";

export type ChatRules = HistoryRules & {
  /** The spellings of the model's special tokens, which are broken in all caller text. */
  readonly marks: SpelledMarks;
};

/**
 * Writes canonical messages in the format of the chat completions API. Each tool result becomes a message; reasoning is
 * sent as `reasoning_content`, which engines rename for their templates; arguments stay exact text. No text contains
 * the spelling of a special token. Throws `EngineError` for unsupported content.
 */
export function toChatMessages(messages: readonly Message[], rules: ChatRules): readonly JsonValue[] {
  const { marks } = rules;
  const nameOf = (name: string | undefined) => (name ? marks.broken(name) : undefined);
  return modelHistory(messages, rules).map(({ role, parts, name }) => {
    const [first] = parts;
    if (role === Role.TOOL && first?.kind?.$case === "toolResult") {
      const { callId, name, content } = first.kind.value;
      const id = marks.broken(callId);
      return { role: "tool", tool_call_id: id, name: nameOf(name), content: contentOf(content, marks) };
    }
    const content = contentOf(parts, marks);
    const rest = role === Role.ASSISTANT ? assistantTurn(parts, content, marks) : { content };
    return { role: ROLE[role], name: nameOf(name), ...rest };
  });
}

/** Writes texts and images. Adjacent texts are joined, so that no special token can form across them. */
function contentOf(parts: readonly HistoryPart[], marks: SpelledMarks): JsonValue {
  if (!parts.some(({ kind }) => kind?.$case === "image")) return brokenText(parts, marks);
  const content: JsonValue[] = [];
  let texts: HistoryPart[] = [];
  const flush = () => {
    if (texts.length > 0) content.push({ type: "text", text: brokenText(texts, marks) });
    texts = [];
  };
  for (const part of parts) {
    const { kind } = part;
    if (kind?.$case === "text") texts.push(part);
    if (kind?.$case !== "image" || kind.value.source?.$case !== "data") continue;
    flush();
    const { source, mimeType, detail } = kind.value;
    const level = detail === ImageDetail.LOW ? "low" : detail === ImageDetail.HIGH ? "high" : undefined;
    content.push({ type: "image_url", image_url: { url: new DataUrl(mimeType, source.value), detail: level } });
  }
  flush();
  return content;
}

/** Joins texts; what the node did not write has no spelling of a special token. */
function brokenText(parts: readonly HistoryPart[], marks: SpelledMarks): string {
  const joined: string[] = [];
  let callers: string[] = [];
  const flush = () => {
    if (callers.length > 0) joined.push(marks.broken(callers.join(PART_SEPARATOR)));
    callers = [];
  };
  for (const { kind, isOwn } of parts) {
    if (kind?.$case !== "text") continue;
    if (isOwn) {
      flush();
      joined.push(kind.value.text);
    } else callers.push(kind.value.text);
  }
  flush();
  return joined.join(PART_SEPARATOR);
}

function assistantTurn(parts: readonly Part[], content: JsonValue, marks: SpelledMarks): Record<string, JsonValue> {
  const reasoning = marks.broken(reasoningOf(parts));
  const calls = parts.flatMap(({ kind }): JsonValue[] => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    const called = { name: marks.broken(name), arguments: marks.brokenJson(argumentsJson || "{}") };
    return [{ id: marks.broken(callId), type: "function", function: called }];
  });
  return {
    content: content === "" && calls.length > 0 ? null : content,
    reasoning_content: reasoning === "" ? undefined : reasoning,
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}

/**
 * Writes the tools of a body, but for the deferred ones. Their schemas are unchanged except for spellings of special
 * tokens. `strict` is left out: the node holds answers to it, and a template that prints the whole tool would print it.
 * Throws `EngineError`: INVALID_SCHEMA, and INVALID_REQUEST for a name with such a spelling, as no answer could call it.
 */
export function toChatTools(tools: readonly Tool[], marks: SpelledMarks): readonly JsonValue[] {
  return tools.flatMap(({ name, description, parametersJsonSchema, deferred }, index) => {
    if (marks.isSpelledIn(name))
      throw new EngineError("INVALID_REQUEST", `tools[${index}].name: spells a control token of the model.`);
    if (deferred) return [];
    const parameters = rawObject(marks.brokenJson(parametersJsonSchema === "" ? "{}" : parametersJsonSchema));
    if (!parameters) {
      throw new EngineError("INVALID_SCHEMA", `tools[${index}].parameters_json_schema: is not a JSON object.`);
    }
    return { type: "function", function: { name, description: marks.broken(description), parameters } };
  });
}
