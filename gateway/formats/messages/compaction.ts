import type { Message, Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { isJsonObject } from "../../json/json-text.ts";
import type { Completion } from "../completion.ts";
import { unsupportedValue } from "../field-error.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { SummaryStream, summaryOf } from "../summary.ts";
import { type Asked, diagnosticsOf, messageHead, usageWithTier } from "./reply.ts";
import type { ReplyCompaction } from "./reply-schema.ts";
import type { MessagesBody } from "./schema.ts";
import type { MessagesEncoder } from "./stream.ts";

/* Compaction ("Compaction of messages" in formats/README.md): the reply is one block with a summary of the conversation. */

/** The tokens at which an edit compacts that names no other number. */
const DEFAULT_TRIGGER_TOKENS = 150_000;
const CHARACTERS_PER_TOKEN = 4;

export type SummaryWish = { readonly instructions: string | undefined };

/** Returns how the conversation is to be summarised; undefined if it is to be answered. Throws `ApiError`. */
export function summaryWish(
  { compaction, context_management: management }: MessagesBody,
  messages: readonly Message[],
): SummaryWish | undefined {
  const edits: readonly unknown[] = isJsonObject(management) && Array.isArray(management.edits) ? management.edits : [];
  if (compaction) {
    if (edits.length > 0) throw unsupportedValue(["compaction"], "It cannot be combined with 'context_management'.");
    return { instructions: compaction.instructions?.trim() || undefined };
  }
  const edit = edits.filter(isJsonObject).find(({ type }) => type === "compact_20260112");
  if (edit?.pause_after_compaction !== true) return undefined;
  const trigger = isJsonObject(edit.trigger) ? edit.trigger.value : undefined;
  const least = typeof trigger === "number" ? trigger : DEFAULT_TRIGGER_TOKENS;
  if (lengthOf(messages.flatMap(({ parts }) => parts)) / CHARACTERS_PER_TOKEN < least) return undefined;
  return { instructions: typeof edit.instructions === "string" ? edit.instructions.trim() || undefined : undefined };
}

/** In characters, without images. */
function lengthOf(parts: readonly Part[]): number {
  return parts.reduce((length, { kind }) => {
    if (kind?.$case === "toolResult") return length + lengthOf(kind.value.content);
    if (kind?.$case === "toolCall") return length + kind.value.argumentsJson.length;
    return kind?.$case === "text" || kind?.$case === "reasoning" ? length + kind.value.text.length : length;
  }, 0);
}

const STOP = { stop_reason: "compaction", stop_sequence: null } as const;

function compactionBlock(completion: Completion): ReplyCompaction {
  return { type: "compaction", content: summaryOf(completion), encrypted_content: null };
}

export function compactedReply(head: Head, asked: Asked, completion: Completion): object {
  const content = [compactionBlock(completion)];
  const diagnosed = diagnosticsOf(head, asked, "at_end");
  return {
    ...messageHead(head, asked),
    ...diagnosed,
    content,
    ...STOP,
    usage: usageWithTier(completion.finished.usage),
  };
}

/** The stream of a compaction: one whole block. */
export function compactionStream(stream: MessagesEncoder): StreamEncoder {
  return new SummaryStream(stream, (completion) =>
    stream.whole(compactionBlock(completion), STOP, completion.finished),
  );
}
