import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import type { Completion } from "../completion.ts";
import type { Head } from "../format.ts";
import { summaryOf } from "../summary.ts";
import type { CompactionItem } from "./reply-schema.ts";

/*
 * Compaction ("Compaction of responses" in formats/README.md): the caller carries the summary sealed and sends it back in
 * place of the summarised items.
 */

/** The most bytes of text in the kept messages of a compacted conversation, in total: some 64,000 tokens. */
const MAX_KEPT_BYTES = 256_000;

/** Throws `ApiError` if there is no summary. */
export function compactionItem(head: Head, completion: Completion): CompactionItem {
  return {
    id: `cmp_${head.replyId}_0`,
    type: "compaction",
    encrypted_content: head.sealer.seal(summaryOf(completion), "summary"),
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
  let bytesLeft = MAX_KEPT_BYTES;
  for (const item of items.toReversed()) {
    if (!isJsonObject(item) || item.role !== "user") continue;
    const { content } = item;
    const parts = Array.isArray(content) ? content.filter(isJsonObject) : [{ type: "input_text", text: content }];
    bytesLeft -= parts.reduce((bytes, part) => bytes + Buffer.byteLength(textIn(part)), 0);
    if (bytesLeft < 0) break;
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
