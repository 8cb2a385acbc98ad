import { createHash } from "node:crypto";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";

/** The demand that a model's template has of the ids of calls. */
export type CallIdRule = "any" | "functions.name:index" | "nine-characters";

/** Returns the id under which a template knows an earlier call. */
export type CallIdMap = (callId: string) => string;

/**
 * Maps the ids of a history's calls to what the model's template demands. Kimi's counts the calls of the whole
 * conversation, so that ids another model gave are renumbered; ids that are in order already come out the same.
 * Mistral's takes nine letters or digits.
 */
export function callIdMap(messages: readonly Message[], rule: CallIdRule): CallIdMap {
  if (rule === "any") return (callId) => callId;
  const ids = new Map<string, string>();
  let calls = 0;
  for (const { parts } of messages) {
    for (const { kind } of parts) {
      if (kind?.$case !== "toolCall") continue;
      const { callId, name } = kind.value;
      ids.set(callId, rule === "nine-characters" ? nineCharacters(callId) : `functions.${name}:${calls}`);
      calls += 1;
    }
  }
  return (callId) => ids.get(callId) ?? callId;
}

function nineCharacters(callId: string): string {
  if (/^[A-Za-z0-9]{9}$/.test(callId)) return callId;
  return createHash("sha256").update(callId).digest("hex").slice(0, 9);
}
