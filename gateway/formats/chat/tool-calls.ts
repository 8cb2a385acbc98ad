import type { Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { argumentsText, type JsonObject } from "../../json/json-text.ts";
import { field } from "../checked.ts";
import { invalidValue } from "../field-error.ts";
import { chatMessage } from "./schema.ts";

/** A text without control characters and without half of a surrogate pair, which encoding would replace. */
const WORD = /^[^\p{Cc}\p{Cs}]+$/u;

/**
 * Reads the `tool_calls` of an assistant message; null and absent are none. Names and arguments come from the model and
 * are not checked. Throws `ApiError` for a fault in the form, and for an id used twice in one message: ids may repeat
 * in a later turn, as some models count from 0 in each.
 */
export function toolCallParts(message: JsonObject, path: FieldPath): readonly Part[] {
  const ids = new Set<string>();
  const calls = field(chatMessage, message, "tool_calls", path) ?? [];
  return calls.map((call, index) => {
    const callPath = [...path, "tool_calls", index];
    const callId = word(call.id, [...callPath, "id"]);
    if (ids.has(callId)) throw invalidValue([...callPath, "id"], "another call of this message has the same id.");
    ids.add(callId);
    const name = word(call.function.name, [...callPath, "function", "name"]);
    const argumentsJson = argumentsText(call.function.arguments);
    return { kind: { $case: "toolCall", value: { callId, name, argumentsJson } } };
  });
}

function word(text: string, path: FieldPath): string {
  if (!WORD.test(text)) throw invalidValue(path, "expected a non-empty string without control characters.");
  return text;
}
