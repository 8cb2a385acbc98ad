import { durationMs } from "../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type CacheBreakpoint, type Message, type Part, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Conversation } from "./chat-template.ts";

const DEFAULT_KEEP_MS = 300_000;
const MAX_KEEP_MS = 86_400_000;

/** The longest lifetime that a request asks for, at most 24 h; 5 min by default. */
export function keepMs({ messages, tools, cache }: GenerateRequest): number {
  const inHead = tools.filter(({ deferred }) => !deferred);
  const marked = [...messages.flatMap(({ parts }) => parts.flatMap(breakpointsOf)), ...inHead.flatMap(breakpointsOf)];
  const wanted = [cache?.ttl, ...marked.map(({ ttl }) => ttl)].flatMap((ttl) => (ttl ? [durationMs(ttl)] : []));
  return wanted.length === 0 ? DEFAULT_KEEP_MS : Math.min(MAX_KEEP_MS, Math.max(0, ...wanted));
}

/** Returns the conversation up to the last part marked as the end of a reusable prefix; undefined without mark. */
export function upToBreakpoint(conversation: Conversation): Conversation | undefined {
  const { messages, tools } = conversation;
  const prefix = { ...conversation, closed: true };
  const at = messages.findLastIndex(({ parts }) => parts.some(isMarked));
  const last = messages[at];
  if (last) {
    const parts = last.parts.slice(0, last.parts.findLastIndex(isMarked) + 1);
    return { ...prefix, messages: [...messages.slice(0, at), { ...last, parts }] };
  }
  if (!tools.some(({ deferred, cacheBreakpoint }) => !deferred && cacheBreakpoint !== undefined)) return undefined;
  // Templates write the tools into the system turn, or next to it.
  return { ...prefix, messages: messages.slice(0, firstTurn(messages)) };
}

function firstTurn(messages: readonly Message[]): number {
  const first = messages.findIndex(({ role }) => role !== Role.SYSTEM);
  return first < 0 ? messages.length : first;
}

function isMarked(part: Part): boolean {
  return breakpointsOf(part).length > 0;
}

function breakpointsOf(
  marked: Part | { readonly cacheBreakpoint?: CacheBreakpoint | undefined },
): readonly CacheBreakpoint[] {
  const own = marked.cacheBreakpoint ? [marked.cacheBreakpoint] : [];
  if (!("kind" in marked) || marked.kind?.$case !== "toolResult") return own;
  return [...own, ...marked.kind.value.content.flatMap(breakpointsOf)];
}
