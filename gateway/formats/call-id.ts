import { createHash } from "node:crypto";
import type { Head } from "./format.ts";

/** An id that needs nothing but the prefix of a format: what engines put in front of it in its place goes. */
const PLAIN = /^(?:call_|toolu_|chatcmpl-tool-)?([A-Za-z0-9_-]{1,58})$/;

/**
 * Returns the id by which the caller knows a call: `call_…` or `toolu_…`, of letters, digits, `_` and `-`, at most 64
 * characters. Engines mint ids in forms of their own, of which some begin anew with each answer; such an id becomes one
 * that no other answer has. Nothing has to be remembered: a node gives calls of a history the ids that its template wants.
 */
export function shownCallId(prefix: "call_" | "toolu_", callId: string, { replyId }: Pick<Head, "replyId">): string {
  const plain = PLAIN.exec(callId)?.[1];
  if (plain !== undefined) return `${prefix}${plain}`;
  const digest = createHash("sha256")
    .update(JSON.stringify([replyId, callId]))
    .digest("hex");
  return `${prefix}${digest.slice(0, 24)}`;
}
