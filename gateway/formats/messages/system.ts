import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { wrongType } from "../field-error.ts";
import { type Block, type ContentContext, partsOf } from "./content.ts";
import { textBlock } from "./schema.ts";

/**
 * The beginning of a line that some agents put in front of the system text for their vendor's accounting. It differs
 * from request to request, so prompts would not share a prefix.
 */
const ATTRIBUTION = "x-anthropic-billing-header:";

/**
 * Reads the top-level `system` as one message; undefined when it is empty. Throws `ApiError` for blocks that are not
 * text.
 */
export function systemMessage(system: unknown): Message | undefined {
  const parts = withoutAttribution(systemBlocks(system, ["system"])).flatMap((block) => partsOf(block, NO_CONTEXT));
  return parts.length > 0 ? { role: Role.SYSTEM, parts } : undefined;
}

/**
 * Refuses a `system` role inside `messages` with an `ApiError`. The wording is part of the contract: agents that send
 * it match the text, and repeat the request without it. This check runs before all others on the body, as agents
 * provoke this refusal at the start of every session.
 */
export function refuseSystemRole(body: JsonObject): void {
  const messages = body.messages;
  if (!Array.isArray(messages)) return;
  const index = messages.findIndex((message) => isJsonObject(message) && message.role === "system");
  if (index < 0) return;
  throw new ApiError(
    "invalid_value",
    `messages.${index}.role: Unexpected role 'system'. role 'system' is not supported on this model: ` +
      "'system' is not a valid input message role; use the top-level 'system' parameter.",
    { path: ["messages", index, "role"], detail: "system_role_in_messages" },
  );
}

const NO_CONTEXT: ContentContext = { acceptsImages: false, unreadable: "reject", sealer: { open: () => undefined } };

/** Reads text that is a string, or an array of text blocks; null and absent are none. Throws `ApiError`. */
export function systemBlocks(system: unknown, at: FieldPath): readonly Block[] {
  if (system === undefined || system === null) return [];
  if (typeof system === "string") return [{ type: "text", value: { text: withoutAttributionLine(system) }, path: at }];
  if (!Array.isArray(system)) throw wrongType(at, "a string or an array of text blocks", system);
  return system.map((value: unknown, index) => {
    const path = [...at, index];
    return { type: "text", value: checked(textBlock, value, path), path };
  });
}

function withoutAttributionLine(text: string): string {
  if (!text.startsWith(ATTRIBUTION)) return text;
  const end = text.indexOf("\n");
  return end < 0 ? "" : text.slice(end + 1);
}

function withoutAttribution(blocks: readonly Block[]): readonly Block[] {
  const index = blocks.findIndex(({ value }) => String(value.text).startsWith(ATTRIBUTION));
  return index < 0 ? blocks : blocks.toSpliced(index, 1);
}
