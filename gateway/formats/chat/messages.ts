import * as z from "zod";
import { type Message, type Part, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ApiError, FieldPath } from "../../errors.ts";
import { argumentsText, isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked, field } from "../checked.ts";
import { invalidValue, oneOf, unsupportedParameter, unsupportedValue, wrongType } from "../field-error.ts";
import { cacheBreakpoint, partBreakpoint, promptCacheBreakpoint } from "../fields.ts";
import {
  IMAGE_DETAILS,
  imageFromUrl,
  imagesNotAccepted,
  leavesUnknownOut,
  readOr,
  reasoningParts,
  textPart,
  type UnreadableRule,
  withBreakpoint,
  word,
} from "../parts.ts";
import { chatMessage, chatParts } from "./schema.ts";

const ROLES = {
  system: Role.SYSTEM,
  developer: Role.SYSTEM,
  user: Role.USER,
  assistant: Role.ASSISTANT,
  tool: Role.TOOL,
} as const;

/**
 * The calls of the assistant message before. Their results follow it directly, before any other message; several
 * results for one call are accepted, and all are kept.
 */
type Calls = {
  /** The number of the message. */
  readonly assistant: number;
  readonly names: ReadonlyMap<string, string>;
  readonly unanswered: Set<string>;
};

type MessageContext = {
  readonly acceptsImages: boolean;
  /** For images and files that the model cannot read, in the user's own content of the last message. */
  readonly unreadable: UnreadableRule;
};

export function readMessages(list: readonly unknown[], context: MessageContext): readonly Message[] {
  const messages: Message[] = [];
  let calls: Calls | undefined;
  for (const [index, item] of list.entries()) {
    const path = ["messages", index];
    if (!isJsonObject(item)) throw wrongType(path, "an object", item);
    const role = ROLES[field(chatMessage, item, "role", path)];
    if (role === Role.TOOL) {
      messages.push(toolMessage(item, path, calls, context.acceptsImages));
      continue;
    }
    if (calls?.unanswered.size) throw unanswered([...path, "role"], calls);
    const unreadable = index === list.length - 1 ? context.unreadable : "placeholder";
    const message = spokenMessage(role, item, path, { ...context, unreadable });
    calls = callsOf(message, index);
    messages.push(message);
  }
  if (calls?.unanswered.size) throw unanswered(["messages", calls.assistant, "tool_calls"], calls);
  return messages;
}

function unanswered(path: FieldPath, { assistant }: Calls): ApiError {
  return invalidValue(
    path,
    "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; " +
      `some calls of messages[${assistant}] have no response.`,
  );
}

function callsOf({ parts }: Message, assistant: number): Calls {
  const names = new Map<string, string>();
  for (const { kind } of parts) if (kind?.$case === "toolCall") names.set(kind.value.callId, kind.value.name);
  return { assistant, names, unanswered: new Set(names.keys()) };
}

function spokenMessage(role: Role, message: JsonObject, path: FieldPath, context: MessageContext): Message {
  const name = field(chatMessage, message, "name", path) ?? "";
  const rule = { also: role === Role.USER ? "image_url" : undefined, ...context } as const;
  const parts =
    role === Role.ASSISTANT
      ? assistantParts(message, path)
      : orEmptyText(contentParts(message.content, [...path, "content"], rule));
  return { role, parts: withBreakpoint(parts, message.cache_control), name: name || undefined };
}

/** Reads an assistant message in the order of generation: reasoning, text, calls. */
function assistantParts(message: JsonObject, path: FieldPath): readonly Part[] {
  if (message.function_call !== undefined && message.function_call !== null)
    throw unsupportedParameter([...path, "function_call"], "Use 'tool_calls' instead.");
  const rule = { also: "refusal", acceptsImages: false, unreadable: "reject" } as const;
  const reasoning = reasoningParts(reasoningOf(message, path));
  const content = contentParts(message.content, [...path, "content"], rule);
  const refusal = field(chatMessage, message, "refusal", path) ?? "";
  const said = refusal === "" ? content : [...content, textPart(refusal)];
  return orEmptyText([...reasoning, ...said, ...toolCallParts(message, path)]);
}

/** Both field names are in use; where both are sent, they have the same value. */
function reasoningOf(message: JsonObject, path: FieldPath): string {
  const isNewer = message.reasoning_content !== undefined && message.reasoning_content !== null;
  return field(chatMessage, message, isNewer ? "reasoning_content" : "reasoning", path) ?? "";
}

const CALL_ID = z.string();

function toolMessage(message: JsonObject, path: FieldPath, calls: Calls | undefined, acceptsImages: boolean): Message {
  const idPath = [...path, "tool_call_id"];
  const callId = checked(CALL_ID, message.tool_call_id, idPath);
  const name = calls?.names.get(callId);
  if (!calls || name === undefined)
    throw invalidValue(
      idPath,
      "a tool message must respond to a call in 'tool_calls' of the preceding assistant message.",
    );
  calls.unanswered.delete(callId);
  const rule = { also: "image_url", acceptsImages, unreadable: "placeholder" } as const;
  const content = orEmptyText(contentParts(message.content, [...path, "content"], rule));
  const part: Part = { kind: { $case: "toolResult", value: { callId, name, content, isError: false } } };
  return { role: Role.TOOL, parts: withBreakpoint([part], message.cache_control) };
}

function orEmptyText(parts: readonly Part[]): readonly Part[] {
  return parts.length > 0 ? parts : [textPart("")];
}

type ContentRule = {
  readonly also: "image_url" | "refusal" | undefined;
  readonly acceptsImages: boolean;
  readonly unreadable: UnreadableRule;
};

/**
 * Reads the parts of a `content`: a string, an array of parts, or null and absent for none. Empty text is left out
 * unless a prefix is marked to end there, so that all forms of empty content give the same prompt.
 */
function contentParts(content: unknown, path: FieldPath, rule: ContentRule): readonly Part[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return content === "" ? [] : [textPart(content)];
  if (!Array.isArray(content)) throw wrongType(path, "a string or an array of content parts", content);
  const leavesOut = leavesUnknownOut(content, isPartType);
  return content
    .flatMap((part: unknown, index) => {
      const read = contentPart(part, [...path, index], rule, leavesOut);
      return read ? [read] : [];
    })
    .filter((part) => part.kind?.$case !== "text" || part.kind.value.text !== "" || part.cacheBreakpoint);
}

/** Undefined for a part of an unknown type that is left out. */
function contentPart(part: unknown, path: FieldPath, rule: ContentRule, leavesOut: boolean): Part | undefined {
  const { type, cache_control, prompt_cache_breakpoint } = checked(ANY_PART, part, path);
  if (leavesOut && !isPartType(type)) return undefined;
  const breakpoint = cacheBreakpoint(cache_control) ?? partBreakpoint(prompt_cache_breakpoint);
  return { kind: partKind(type, part, path, rule), cacheBreakpoint: breakpoint };
}

/** The types of this format, and those that clients take from responses by mistake: leaving them out would lose words. */
const PART_TYPES: ReadonlySet<string> = new Set([
  ...["text", "refusal", "image_url", "input_audio", "file", "input_text", "output_text", "input_image"],
]);

function isPartType(type: string): boolean {
  return PART_TYPES.has(type);
}

const ANY_PART = z.object({
  type: z.string(),
  cache_control: z.unknown(),
  prompt_cache_breakpoint: promptCacheBreakpoint,
});

function partKind(type: string, part: unknown, path: FieldPath, rule: ContentRule): Part["kind"] {
  const typePath = [...path, "type"];
  if (type === "text") return textPart(checked(chatParts.text, part, path).text).kind;
  if (type === "refusal" && rule.also === "refusal")
    return textPart(checked(chatParts.refusal, part, path).refusal).kind;
  const instead = (text: string) => textPart(text).kind;
  if (type === "image_url" && rule.also === "image_url")
    return readOr(rule.unreadable, "an image", () => imageKind(part, path, rule), instead);
  if (type === "input_audio" || type === "file") {
    const refuse = () => {
      throw unsupportedValue(typePath, "Audio and files are not supported in messages.");
    };
    const unreadable = rule.also === "image_url" ? rule.unreadable : "reject";
    return readOr<Part["kind"]>(unreadable, type === "file" ? "a file" : "a recording", refuse, instead);
  }
  throw oneOf(typePath, rule.also ? ["text", rule.also] : ["text"]);
}

function imageKind(part: unknown, path: FieldPath, rule: ContentRule): Part["kind"] {
  if (!rule.acceptsImages) throw imagesNotAccepted(path);
  const { url, detail } = checked(chatParts.image_url, part, path).image_url;
  return { $case: "image", value: imageFromUrl(url, [...path, "image_url", "url"], IMAGE_DETAILS[detail ?? "auto"]) };
}

/** Ids are unique within a message; they may repeat in a later turn, as some models count from 0 in each. */
function toolCallParts(message: JsonObject, path: FieldPath): readonly Part[] {
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
