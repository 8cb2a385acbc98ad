import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import type { Sealer } from "../format.ts";

/**
 * The text of a reasoning item that comes back (wire table C6): the sealed copy where it is ours, else the plain text,
 * else the summary, else "". Agents pass on items of other services and leave parts out, so nothing here is an error.
 */
export function reasoningText(item: JsonObject, sealer: Sealer): string {
  const sealed = item.encrypted_content;
  const opened = typeof sealed === "string" && sealed !== "" ? sealer.open(sealed) : undefined;
  return opened || textsOf(item.content, "reasoning_text") || textsOf(item.summary, "summary_text");
}

function textsOf(parts: unknown, type: "reasoning_text" | "summary_text"): string {
  if (!Array.isArray(parts)) return "";
  return parts
    .flatMap((part: unknown) =>
      isJsonObject(part) && part.type === type && typeof part.text === "string" ? [part.text] : [],
    )
    .join("\n\n");
}
