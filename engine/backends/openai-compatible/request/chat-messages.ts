import { ImageDetail, type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { type CallIdMap, type CallIdRule, callIdMap } from "../../../conversation/call-id-map.ts";
import { EngineError } from "../../../errors.ts";
import { DataUrl, type JsonValue } from "../http/raw-json.ts";

const ROLE: Readonly<Record<number, string>> = {
  [Role.SYSTEM]: "system",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
};

/** The text between the parts of one message, as they are paragraphs of their own and not one word cut in two. */
const PART_SEPARATOR = "\n";

/** The rules of what the engine takes of earlier turns. */
export type HistoryRules = {
  /** The demands that the model's template has of the ids of calls. */
  readonly callIds: CallIdRule;
  /** Whether the engine takes images. */
  readonly images: boolean;
};

/**
 * Writes the canonical messages as the chat completions API has them. Each tool result becomes a message of its own;
 * reasoning goes back as `reasoning_content`, which the engines rename as their templates want it; arguments stay exact
 * text. Throws `EngineError` for what the engine cannot take.
 */
export function toChatMessages(messages: readonly Message[], rules: HistoryRules): readonly JsonValue[] {
  const ids = callIdMap(messages, rules.callIds);
  return messages.flatMap((message, index) => {
    const path = `messages[${index}]`;
    const role = ROLE[message.role];
    if (role === undefined) throw new EngineError("INVALID_REQUEST", `${path}.role: is not set.`);
    const results = message.parts.flatMap(({ kind }, at): JsonValue[] => {
      if (kind?.$case !== "toolResult") return [];
      const { callId, name, content } = kind.value;
      const text = contentOf(content, `${path}.parts[${at}].content`, rules);
      return [{ role: "tool", tool_call_id: ids(callId), name: name === "" ? undefined : name, content: text }];
    });
    const rest = message.parts.filter(({ kind }) => kind?.$case !== "toolResult");
    if (rest.length === 0 && results.length > 0) return results;
    const content = contentOf(message.parts, `${path}.parts`, rules);
    const turn = message.role === Role.ASSISTANT ? assistantTurn(rest, content, ids) : { content };
    return [...results, { role, name: message.name, ...turn }];
  });
}

function contentOf(parts: readonly Part[], path: string, { images }: HistoryRules): JsonValue {
  if (!parts.some(({ kind }) => kind?.$case === "image")) return visibleText(parts);
  return parts.flatMap(({ kind }, index): JsonValue[] => {
    if (kind?.$case === "text") return [{ type: "text", text: kind.value.text }];
    if (kind?.$case !== "image") return [];
    const { source, mimeType, detail } = kind.value;
    if (!images || source?.$case !== "data") {
      throw new EngineError("UNSUPPORTED_FEATURE", `${path}[${index}]: this model does not take such images.`);
    }
    const level = detail === ImageDetail.LOW ? "low" : detail === ImageDetail.HIGH ? "high" : undefined;
    return [{ type: "image_url", image_url: { url: new DataUrl(mimeType, source.value), detail: level } }];
  });
}

function visibleText(parts: readonly Part[]): string {
  return parts.flatMap(({ kind }) => (kind?.$case === "text" ? [kind.value.text] : [])).join(PART_SEPARATOR);
}

function assistantTurn(parts: readonly Part[], content: JsonValue, ids: CallIdMap): Record<string, JsonValue> {
  const reasoning = parts.flatMap(({ kind }) =>
    kind?.$case === "reasoning" && !kind.value.redacted && kind.value.text !== "" ? [kind.value.text] : [],
  );
  const calls = parts.flatMap(({ kind }): JsonValue[] => {
    if (kind?.$case !== "toolCall") return [];
    const { callId, name, argumentsJson } = kind.value;
    return [{ id: ids(callId), type: "function", function: { name, arguments: argumentsJson || "{}" } }];
  });
  return {
    content: content === "" && calls.length > 0 ? null : content,
    reasoning_content: reasoning.length > 0 ? reasoning.join(PART_SEPARATOR) : undefined,
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}
