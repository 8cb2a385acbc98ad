import { createHash } from "node:crypto";
import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";

export type CallIdRule = "any" | "functions.name:index" | "nine-characters";

type Calls = { readonly shown: string[]; answered: number };

/**
 * Rewrites call ids as the template requires: Kimi counts the calls of the conversation, Mistral requires nine letters
 * or digits, without the prefix of an API format. A result belongs to the oldest call with its id and no result, else
 * to the last.
 */
export function withCallIds<One extends Message>(messages: readonly One[], rule: CallIdRule): readonly One[] {
  if (rule === "any") return messages;
  const calls = new Map<string, Calls>();
  let count = 0;
  const shownCall = (callId: string, name: string) => {
    const shown = rule === "nine-characters" ? nineCharacters(callId) : `functions.${name}:${count}`;
    count += 1;
    const named = calls.get(callId);
    if (named) named.shown.push(shown);
    else calls.set(callId, { shown: [shown], answered: 0 });
    return shown;
  };
  const shownResult = (callId: string) => {
    const named = calls.get(callId);
    if (!named) return callId;
    const shown = named.shown[named.answered] ?? named.shown.at(-1) ?? callId;
    named.answered = Math.min(named.answered + 1, named.shown.length);
    return shown;
  };
  const shown = (part: Part): Part => {
    const { kind } = part;
    if (kind?.$case === "toolCall") {
      const { callId, name } = kind.value;
      return { ...part, kind: { ...kind, value: { ...kind.value, callId: shownCall(callId, name) } } };
    }
    if (kind?.$case !== "toolResult") return part;
    return { ...part, kind: { ...kind, value: { ...kind.value, callId: shownResult(kind.value.callId) } } };
  };
  return messages.map((message) =>
    message.parts.some(hasId) ? { ...message, parts: message.parts.map(shown) } : message,
  );
}

function hasId({ kind }: Part): boolean {
  return kind?.$case === "toolCall" || kind?.$case === "toolResult";
}

function nineCharacters(callId: string): string {
  const own = /^(?:call_|toolu_)?([A-Za-z0-9]{9})$/.exec(callId)?.[1];
  return own ?? createHash("sha256").update(callId).digest("hex").slice(0, 9);
}
