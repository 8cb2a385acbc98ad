import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { type Completion, textOf } from "../completion.ts";
import type { Head } from "../format.ts";
import { textPart } from "../parts.ts";
import type { CompactionItem } from "./reply-schema.ts";

/*
 * Compaction ("Compaction of responses" in formats/README.md): the model writes a summary of a conversation that has
 * grown too long, which the caller carries sealed and sends back in place of the summarised items.
 */

/** The prompt for the summary, after the whole conversation. */
const REQUEST = [
  "Stop here and write a summary of this conversation. It will replace everything above, but for the instructions and what the user wrote: whoever goes on has nothing else to know it from.",
  "Say what the user wants, with every condition and preference; what has been done and found out, and what was decided and why; the files, names, commands, values and errors that matter, exactly as they stand; what is not finished, and the very next step.",
  "Write plain text. Call no tool, do not go on with the work, and do not speak to the user.",
].join("\n\n");

/** The most bytes of text in the kept messages of a compacted conversation, in total: some 64,000 tokens. */
const MAX_KEPT_BYTES = 256_000;

/** The request follows the conversation, to reuse its cached prefix. */
export function summaryRequest(): Message {
  return { role: Role.USER, parts: [textPart(REQUEST)] };
}

export function summaryMessage(summary: string): Message {
  const text = `What came before was summarised to make room. The summary:\n\n${summary}\n\nGo on from there.`;
  return { role: Role.USER, parts: [textPart(text)] };
}

/** A truncated summary counts, as the conversation is lost otherwise. Throws `ApiError` if there is none. */
export function compactionItem(head: Head, completion: Completion): CompactionItem {
  const summary = textOf(completion).trim();
  if (summary === "") throw new ApiError("upstream_error", "The model wrote no summary. Please try again.");
  return {
    id: `cmp_${head.replyId}_0`,
    type: "compaction",
    encrypted_content: head.sealer.seal(summary, "summary"),
  };
}

/** A user message kept in a compacted conversation. */
export type KeptMessage = {
  readonly id: string | undefined;
  /** The texts and images of the message, in the form of a request. */
  readonly content: readonly object[];
};

/** Returns the newest user messages of `input` that fit, whole and in their order. `input` has been checked. */
export function keptMessages(input: unknown): readonly KeptMessage[] {
  const items: readonly unknown[] = Array.isArray(input) ? input : [{ role: "user", content: input }];
  const kept: KeptMessage[] = [];
  let room = MAX_KEPT_BYTES;
  for (const item of items.toReversed()) {
    if (!isJsonObject(item) || item.role !== "user") continue;
    const { content } = item;
    const parts = Array.isArray(content) ? content.filter(isJsonObject) : [{ type: "input_text", text: content }];
    room -= parts.reduce((bytes, part) => bytes + Buffer.byteLength(textIn(part)), 0);
    if (room < 0) break;
    kept.push({ id: typeof item.id === "string" ? item.id : undefined, content: parts.map(keptPart) });
  }
  return kept.reverse();
}

function textIn({ text, refusal }: JsonObject): string {
  const written = text ?? refusal;
  return typeof written === "string" ? written : "";
}

/** Returns a part as it was sent, without the fields that the format does not define. */
function keptPart(part: JsonObject): object {
  if (part.type !== "input_image") return { type: "input_text", text: textIn(part) };
  return { type: "input_image", image_url: part.image_url, detail: part.detail ?? "auto" };
}
