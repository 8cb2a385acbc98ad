import type { Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { argumentsText, isJsonObject } from "../../json/json-text.ts";
import { invalidValue, missing, unsupportedValue, wrongType } from "../field-error.ts";
import { requiredString } from "./content.ts";

/**
 * A text without control characters and without half of a surrogate pair, which would be another character once it is
 * sent on.
 */
const WORD = /^[^\p{Cc}\p{Cs}]+$/u;

/**
 * Reads the `tool_calls` of an assistant message; null and absent are none. Names and arguments are the model's own
 * words and are taken as they are. Throws `ApiError` for a fault in the form, and for an id that the same message uses
 * twice: ids may come again in a later turn, as some models count from 0 in each.
 */
export function toolCallParts(value: unknown, path: FieldPath): readonly Part[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw wrongType(path, "an array of tool calls", value);
  const ids = new Set<string>();
  return value.map((item: unknown, index) => toolCallPart(item, [...path, index], ids));
}

function toolCallPart(call: unknown, path: FieldPath, ids: Set<string>): Part {
  if (!isJsonObject(call)) throw wrongType(path, "an object", call);
  const callId = word(call.id, [...path, "id"]);
  if (ids.has(callId)) throw invalidValue([...path, "id"], "another call of this message has the same id.");
  ids.add(callId);
  if (requiredString(call.type, [...path, "type"]) !== "function")
    throw unsupportedValue([...path, "type"], "Only calls of the type 'function' are supported.");
  const functionPath = [...path, "function"];
  const body = call.function ?? undefined;
  if (body === undefined) throw missing(functionPath);
  if (!isJsonObject(body)) throw wrongType(functionPath, "an object", body);
  const name = word(body.name, [...functionPath, "name"]);
  const argumentsJson = argumentsText(requiredString(body.arguments, [...functionPath, "arguments"]));
  return { kind: { $case: "toolCall", value: { callId, name, argumentsJson } } };
}

function word(value: unknown, path: FieldPath): string {
  const text = requiredString(value, path);
  if (!WORD.test(text)) throw invalidValue(path, "expected a non-empty string without control characters.");
  return text;
}
