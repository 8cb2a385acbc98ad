import type { Part } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";

/**
 * Rendering costs in UTF-16 units of plain text, 50 of which take a microsecond: a message 100 µs, JSON 1 µs a unit.
 */
const MESSAGE_UNITS = 5_000;
const JSON_UNITS = 50;
/** The largest rendering on the main thread, which streams tokens: about 3 ms. */
const SMALL_UNITS = 150_000;

export function isSmall({ messages, tools }: Pick<Conversation, "messages" | "tools">): boolean {
  let units = 0;
  for (const { parts } of messages) {
    units += MESSAGE_UNITS;
    for (const part of parts) units += unitsOf(part);
    if (units > SMALL_UNITS) return false;
  }
  for (const { description, parametersJsonSchema } of tools) {
    units += MESSAGE_UNITS + description.length + JSON_UNITS * parametersJsonSchema.length;
    if (units > SMALL_UNITS) return false;
  }
  return units <= SMALL_UNITS;
}

function unitsOf({ kind }: Part): number {
  switch (kind?.$case) {
    case "text":
    case "reasoning":
      return kind.value.text.length;
    case "toolCall":
      return MESSAGE_UNITS + JSON_UNITS * kind.value.argumentsJson.length;
    case "toolResult":
      return MESSAGE_UNITS + kind.value.content.reduce((sum, part) => sum + unitsOf(part), 0);
    default:
      return 0;
  }
}
