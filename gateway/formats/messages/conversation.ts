import { type Message, type Part, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked, field } from "../checked.ts";
import { invalidValue, missing, unsupportedValue, wrongType } from "../field-error.ts";
import { leavesUnknownOut, withBreakpoint } from "../parts.ts";
import { summaryText } from "../summary.ts";
import {
  ANY_BLOCK,
  allParts,
  type Block,
  type ContentContext,
  contentBlocks,
  isBlockType,
  partsOf,
} from "./content.ts";
import { compactionBlock, inputMessage, textBlock, toolResultBlock, toolUseBlock } from "./schema.ts";
import { RequestTools } from "./tools.ts";

type Turn = {
  readonly role: "user" | "assistant" | "system";
  readonly blocks: Block[];
  /** The number of the first of the messages. */
  readonly place: number;
};

type OpenCall = { readonly name: string; readonly messagePath: FieldPath };

export type ConversationContext = ContentContext & {
  readonly strictAlternation: boolean;
  /** Whether messages of the role `system` are accepted (`merge`) at their position in the conversation. */
  readonly systemRole: "reject" | "merge";
};

/** A canonical message, and the number of the body's message that it, or its beginning, came from. */
export type PlacedMessage = { readonly message: Message; readonly place: number };

/** Every tool result becomes a message of its own, followed by one message with the rest of its user turn. */
export function conversation(messages: readonly unknown[], context: ConversationContext): readonly PlacedMessage[] {
  const result: PlacedMessage[] = [];
  let open: ReadonlyMap<string, OpenCall> = new Map();
  for (const turn of behindSummary(turnsOf(messages, context))) {
    if (turn.role === "system") {
      // A system message neither answers calls nor ends a turn: results may still follow.
      const parts = allParts(turn.blocks, context);
      if (parts.length > 0) result.push({ message: { role: Role.SYSTEM, parts }, place: turn.place });
    } else if (turn.role === "assistant") {
      const message = { role: Role.ASSISTANT, parts: allParts(turn.blocks, context) };
      result.push({ message, place: turn.place });
      open = callsOf(turn.blocks);
    } else {
      result.push(...userMessages(turn, open, messages.length - 1, context));
      open = new Map();
    }
  }
  refuseUnanswered(open);
  return withoutEmptyPrefill(result);
}

function turnsOf(
  messages: readonly unknown[],
  { strictAlternation, systemRole }: Pick<ConversationContext, "strictAlternation" | "systemRole">,
): readonly Turn[] {
  const turns: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    const path = ["messages", index];
    if (!isJsonObject(message)) throw wrongType(path, "an object", message);
    const contentPath = [...path, "content"];
    if (message.role === "system" && systemRole === "merge") {
      const { content } = message;
      const blocks = Array.isArray(content)
        ? contentBlocks(content, contentPath, "system")
        : systemBlocks(content, contentPath);
      turns.push({ role: message.role, blocks: [...blocks], place: index });
      continue;
    }
    const role = field(inputMessage, message, "role", path);
    if (message.content === undefined || message.content === null) throw missing(contentPath);
    const blocks = contentBlocks(message.content, contentPath, role);
    const isLastWord = role === "user" && index === messages.length - 1;
    if (isLastWord && blocks.length === 0 && [message.content].flat().length > 0)
      throw unsupportedValue([...contentPath, 0, "type"], "Blocks of hosted tools say nothing to the model here.");
    const last = turns.at(-1);
    if (last?.role !== role) turns.push({ role, blocks: [...blocks], place: index });
    else if (strictAlternation) throw invalidValue([...path, "role"], NOT_ALTERNATING);
    else for (const block of blocks) last.blocks.push(block);
  }
  return turns;
}

/** Leaves out what the last summary stands for; system text stays. */
function behindSummary(turns: readonly Turn[]): readonly Turn[] {
  const at = turns.findLastIndex(({ blocks }) => blocks.some(summaryIn));
  const turn = turns[at];
  const index = turn?.blocks.findLastIndex(summaryIn) ?? -1;
  const block = turn?.blocks[index];
  if (!turn || !block) return turns;
  const value = { ...block.value, type: "text", text: summaryText(summaryIn(block) ?? "") };
  const summary: Turn = { role: "user", blocks: [{ ...block, type: "text", value }], place: placeOf(block) };
  const rest = turn.blocks.slice(index + 1);
  return [
    ...turns.slice(0, at).filter(({ role }) => role === "system"),
    summary,
    ...(rest.length > 0 ? [{ ...turn, blocks: rest }] : []),
    ...turns.slice(at + 1),
  ];
}

function summaryIn({ type, value, path }: Block): string | undefined {
  return type === "compaction" ? field(compactionBlock, value, "content", path) || undefined : undefined;
}

const NOT_ALTERNATING = "roles must alternate between 'user' and 'assistant'.";

function callsOf(blocks: readonly Block[]): ReadonlyMap<string, OpenCall> {
  const calls = new Map<string, OpenCall>();
  for (const { type, value, path } of blocks) {
    if (type !== "tool_use") continue;
    const id = field(toolUseBlock, value, "id", path);
    const name = field(toolUseBlock, value, "name", path);
    if (calls.has(id)) throw invalidValue([...path, "id"], "`tool_use` ids must be unique.");
    calls.set(id, { name, messagePath: path.slice(0, 2) });
  }
  return calls;
}

function userMessages(
  { blocks, place }: Turn,
  open: ReadonlyMap<string, OpenCall>,
  lastPlace: number,
  context: ContentContext,
): readonly PlacedMessage[] {
  const results: PlacedMessage[] = [];
  const tolerant: ContentContext = { ...context, unreadable: "placeholder" };
  const answered = new Set<string>();
  for (const block of blocks) {
    if (block.type !== "tool_result") continue;
    const callId = field(toolResultBlock, block.value, "tool_use_id", block.path);
    const call = open.get(callId);
    if (!call) throw invalidValue(block.path, UNEXPECTED_RESULT);
    if (answered.has(callId)) throw invalidValue(block.path, REPEATED_RESULT);
    answered.add(callId);
    const message = { role: Role.TOOL, parts: resultParts(block, callId, call.name, tolerant) };
    results.push({ message, place: placeOf(block) });
  }
  refuseUnanswered(new Map([...open].filter(([callId]) => !answered.has(callId))));
  // An agent's own additions stand beside a tool's result.
  const ownPlace = results.some((result) => result.place === lastPlace) ? undefined : lastPlace;
  const parts = blocks.flatMap((block) => partsOf(block, placeOf(block) === ownPlace ? context : tolerant));
  if (results.length > 0 && parts.length === 0) return results;
  const said = blocks.find(({ type }) => type !== "tool_result");
  return [...results, { message: { role: Role.USER, parts }, place: said ? placeOf(said) : place }];
}

function placeOf({ path }: Block): number {
  return Number(path[1]);
}

function resultParts(block: Block, callId: string, name: string, context: ContentContext): readonly Part[] {
  const { value, path } = block;
  const isError = field(toolResultBlock, value, "is_error", path) ?? false;
  const content = allParts(contentBlocks(value.content, [...path, "content"], "tool_result"), context);
  return withBreakpoint(
    [{ kind: { $case: "toolResult", value: { callId, name, content, isError } } }],
    value.cache_control,
  );
}

/*
 * The wording of the format's own service, which agents match, except the ids: they are the caller's text.
 */

const UNEXPECTED_RESULT =
  "unexpected `tool_use_id` found in `tool_result` blocks. " +
  "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.";
const REPEATED_RESULT = "each tool_use must have a single result. Found multiple `tool_result` blocks for one id.";
const UNANSWERED_CALL =
  "`tool_use` ids were found without `tool_result` blocks immediately after. " +
  "Each `tool_use` block must have a corresponding `tool_result` block in the next message.";

function refuseUnanswered(calls: ReadonlyMap<string, OpenCall>): void {
  for (const { messagePath } of calls.values()) throw invalidValue(messagePath, UNANSWERED_CALL);
}

/** Drops an empty assistant turn at the end: without it the template opens the turn itself. */
function withoutEmptyPrefill(messages: readonly PlacedMessage[]): readonly PlacedMessage[] {
  const last = messages.at(-1)?.message;
  return messages.length > 1 && last?.role === Role.ASSISTANT && last.parts.length === 0
    ? messages.slice(0, -1)
    : messages;
}

/** Some agents begin the system text with a line for accounting that differs from request to request. */
const ATTRIBUTION = "x-anthropic-billing-header:";

export function systemMessage(system: unknown): Message | undefined {
  const blocks = systemBlocks(system, ["system"]);
  const index = blocks.findIndex(({ value }) => String(value.text).startsWith(ATTRIBUTION));
  const parts = allParts(index < 0 ? blocks : blocks.toSpliced(index, 1), NO_CONTEXT);
  return parts.length > 0 ? { role: Role.SYSTEM, parts } : undefined;
}

/**
 * Refuses the role `system` in `messages`. Agents provoke this refusal at the start of every session, match its words,
 * and repeat the request without the role; so it comes before all other checks of the body.
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

const NO_CONTEXT: ContentContext = {
  acceptsImages: false,
  unreadable: "reject",
  sealer: { open: () => undefined },
  tools: new RequestTools([]),
};

export function systemBlocks(system: unknown, at: FieldPath): readonly Block[] {
  if (system === undefined || system === null) return [];
  if (typeof system === "string") return [{ type: "text", value: { text: withoutAttributionLine(system) }, path: at }];
  if (!Array.isArray(system)) throw wrongType(at, "a string or an array of text blocks", system);
  const leavesOut = leavesUnknownOut(system, (type) => type === "text");
  return system.flatMap((value: unknown, index) => {
    const path = [...at, index];
    const { type } = checked(ANY_BLOCK, value, path);
    if (leavesOut && type !== "text" && !isBlockType(type)) return [];
    return [{ type: "text", value: checked(textBlock, value, path), path }];
  });
}

function withoutAttributionLine(text: string): string {
  if (!text.startsWith(ATTRIBUTION)) return text;
  const end = text.indexOf("\n");
  return end < 0 ? "" : text.slice(end + 1);
}
