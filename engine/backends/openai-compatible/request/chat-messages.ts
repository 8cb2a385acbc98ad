import { ImageDetail, type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { type HistoryRules, modelHistory, reasoningOf, textOf } from "../../../conversation/model-history.ts";
import { DataUrl, type JsonValue } from "../http/raw-json.ts";

const ROLE: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: "system",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
};

/**
 * Writes the canonical messages as the chat completions API has them. Each tool result becomes a message of its own;
 * reasoning goes back as `reasoning_content`, which the engines rename as their templates want it; arguments stay exact
 * text. Throws `EngineError` for what the engine cannot take.
 */
export function toChatMessages(messages: readonly Message[], rules: HistoryRules): readonly JsonValue[] {
  return modelHistory(messages, rules).map(({ role, parts, name }) => {
    const [first] = parts;
    if (role === Role.TOOL && first?.kind?.$case === "toolResult") {
      const { callId, name, content } = first.kind.value;
      return { role: "tool", tool_call_id: callId, name: name === "" ? undefined : name, content: contentOf(content) };
    }
    const content = contentOf(parts);
    return { role: ROLE[role], name, ...(role === Role.ASSISTANT ? assistantTurn(parts, content) : { content }) };
  });
}

function contentOf(parts: readonly Part[]): JsonValue {
  if (!parts.some(({ kind }) => kind?.$case === "image")) return textOf(parts);
  return parts.flatMap(({ kind }): JsonValue[] => {
    if (kind?.$case === "text") return [{ type: "text", text: kind.value.text }];
    if (kind?.$case !== "image" || kind.value.source?.$case !== "data") return [];
    const { source, mimeType, detail } = kind.value;
    const level = detail === ImageDetail.LOW ? "low" : detail === ImageDetail.HIGH ? "high" : undefined;
    return [{ type: "image_url", image_url: { url: new DataUrl(mimeType, source.value), detail: level } }];
  });
}

function assistantTurn(parts: readonly Part[], content: JsonValue): Record<string, JsonValue> {
  const reasoning = reasoningOf(parts);
  const calls = parts.flatMap(({ kind }): JsonValue[] => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    return [{ id: callId, type: "function", function: { name, arguments: argumentsJson || "{}" } }];
  });
  return {
    content: content === "" && calls.length > 0 ? null : content,
    reasoning_content: reasoning === "" ? undefined : reasoning,
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}
