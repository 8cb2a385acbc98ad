import { createHash } from "node:crypto";
import type { Head } from "./format.ts";

/** An id that only needs the format's prefix: an engine's own prefix is replaced. */
const PLAIN = /^(?:call_|toolu_|chatcmpl-tool-)?([A-Za-z0-9_-]{1,58})$/;

/**
 * Returns the call id shown to the caller: `call_…` or `toolu_…`, of letters, digits, `_` and `-`, at most 64
 * characters. Engines create ids in their own forms, and some restart them with each answer; such an id is made unique
 * across answers. The mapping is not stored: a node rewrites the ids of a conversation's calls to those that its
 * template wants.
 */
export function shownCallId(prefix: "call_" | "toolu_", callId: string, { replyId }: Pick<Head, "replyId">): string {
  const plain = PLAIN.exec(callId)?.[1];
  if (plain !== undefined) return `${prefix}${plain}`;
  const digest = createHash("sha256")
    .update(JSON.stringify([replyId, callId]))
    .digest("hex");
  return `${prefix}${digest.slice(0, 24)}`;
}
