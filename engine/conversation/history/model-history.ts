import { createHash } from "node:crypto";
import { type Message, type Part, Role, type ToolResultPart } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../errors.ts";

export type CallIdRule = "any" | "functions.name:index" | "nine-characters";

type Calls = { readonly shown: string[]; answered: number };

/**
 * Rewrites call ids as the template requires: Kimi counts the calls of the conversation, Mistral requires nine letters
 * or digits, without the prefix of an API format. A result belongs to the oldest call with its id and no result, else
 * to the last.
 */
function withCallIds<One extends Message>(messages: readonly One[], rule: CallIdRule): readonly One[] {
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
    message.parts.some(({ kind }) => kind?.$case === "toolCall" || kind?.$case === "toolResult")
      ? { ...message, parts: message.parts.map(shown) }
      : message,
  );
}

function nineCharacters(callId: string): string {
  const own = /^(?:call_|toolu_)?([A-Za-z0-9]{9})$/.exec(callId)?.[1];
  return own ?? createHash("sha256").update(callId).digest("hex").slice(0, 9);
}

/** The values of `TurnRules.systemMessages`, least restrictive first. */
export const SYSTEM_PLACES = ["anywhere", "first", "nowhere"] as const;

export type TurnRules = {
  /** Where the template renders a system message; elsewhere it refuses, drops or moves it. */
  readonly systemMessages: (typeof SYSTEM_PLACES)[number];
  readonly alternates: boolean;
  readonly singleCalls: boolean;
};

export const ANY_ORDER: TurnRules = { systemMessages: "anywhere", alternates: false, singleCalls: false };

export type HistoryRules = {
  readonly turns: TurnRules;
  readonly callIds: CallIdRule;
  readonly images: boolean;
  readonly counted?: boolean;
};

export type HistoryMessage = Message & {
  /** The number of messages of the request that determine this message and all before it. */
  readonly upTo?: number;
  /** Whether the model's turn ended with calls that are written as text, so that no answer goes on with it. */
  readonly isClosed?: boolean;
};

/** A part that the node wrote itself, if `isOwn`: what it has of callers' texts is broken already. */
export type HistoryPart = Part & { readonly isOwn?: boolean };

export const PART_SEPARATOR = "\n";

/** The text before the result of a failed tool call: templates have no field for failures. */
export const FAILED_TOOL = "[The tool call failed.]";

/** The assistant turn between a tool result and a user message, for templates that require one. */
const SILENT_TURN = "OK.";

/** For a system message that the template does not accept where it stands. */
const SYSTEM_MARKS = { open: "<system>", close: "</system>" };

/**
 * Returns the messages as the model's template accepts them, the same for every backend. Leading system messages are
 * joined; later ones keep their position, so that a new turn does not change the prompt before it; each tool result is
 * a message. Throws `EngineError`.
 */
export function modelHistory(messages: readonly HistoryMessage[], rules: HistoryRules): readonly HistoryMessage[] {
  for (const [index, message] of messages.entries()) check(message, `messages[${index}]`, rules);
  const { systemMessages, alternates, singleCalls } = rules.turns;
  const counted = rules.counted ? messages.map((message, index) => ({ ...message, upTo: index + 1 })) : messages;
  const placed = withSystemPlaced(counted.flatMap(withResultsApart), systemMessages);
  const apart = singleCalls ? withCallsApart(placed) : placed;
  return withCallIds(alternates ? inTurns(apart) : apart, rules.callIds);
}

/** For each of ascending `counts` of request messages, the leading messages of a counted history. */
export function writtenBy(history: readonly HistoryMessage[], counts: readonly number[]): readonly number[] {
  let written = 0;
  return counts.map((count) => {
    while (written < history.length && (history[written]?.upTo ?? 0) <= count) written += 1;
    return written;
  });
}

export function textOf(parts: readonly Part[]): string {
  return parts.flatMap(({ kind }) => (kind?.$case === "text" ? [kind.value.text] : [])).join(PART_SEPARATOR);
}

/** Returns the reasoning of parts, "" for none; redacted reasoning is unreadable and left out. */
export function reasoningOf(parts: readonly Part[]): string {
  return parts
    .flatMap(({ kind }) =>
      kind?.$case === "reasoning" && !kind.value.redacted && kind.value.text !== "" ? [kind.value.text] : [],
    )
    .join(PART_SEPARATOR);
}

function check({ role, parts }: Message, path: string, { images }: HistoryRules): void {
  if (role < Role.SYSTEM || role > Role.TOOL) throw new EngineError("INVALID_REQUEST", `${path}.role: is not set.`);
  for (const [index, { kind }] of parts.entries()) {
    const partPath = `${path}.parts[${index}]`;
    if (role === Role.ASSISTANT && kind?.$case === "toolDeclaration")
      throw new EngineError("INVALID_REQUEST", `${partPath}.tool_declaration: the model declares no tools.`);
    checkImage(kind, partPath, images);
    if (kind?.$case !== "toolResult") continue;
    for (const [at, part] of kind.value.content.entries()) checkImage(part.kind, `${partPath}.content[${at}]`, images);
  }
}

function checkImage(kind: Part["kind"], path: string, images: boolean): void {
  if (kind?.$case !== "image" || (images && kind.value.source?.$case === "data")) return;
  throw new EngineError("UNSUPPORTED_FEATURE", `${path}: this model does not take such images.`);
}

function withResultsApart(message: HistoryMessage): readonly HistoryMessage[] {
  const results = message.parts.flatMap((part) =>
    part.kind?.$case === "toolResult" ? [resultMessage(part, part.kind.value, message)] : [],
  );
  if (results.length === 0) return [message];
  const rest = message.parts.filter(({ kind }) => kind?.$case !== "toolResult");
  return rest.length === 0 ? results : [...results, { ...message, parts: rest }];
}

function resultMessage(part: Part, result: ToolResultPart, of: HistoryMessage): HistoryMessage {
  if (!result.isError) return { role: Role.TOOL, parts: [part], ...countOf(of) };
  const content = [textPart(FAILED_TOOL), ...result.content];
  const failed: Part = { ...part, kind: { $case: "toolResult", value: { ...result, content } } };
  return { role: Role.TOOL, parts: [failed], ...countOf(of) };
}

function countOf({ upTo }: HistoryMessage): Pick<HistoryMessage, "upTo"> {
  return upTo === undefined ? {} : { upTo };
}

function withSystemPlaced(
  messages: readonly HistoryMessage[],
  places: TurnRules["systemMessages"],
): readonly HistoryMessage[] {
  const spoken = messages.findIndex((message) => !isSystem(message));
  const leading = joined(messages.slice(0, spoken < 0 ? messages.length : spoken));
  const head = places === "nowhere" ? leading.map(asUser) : leading;
  const rest = spoken < 0 ? [] : messages.slice(spoken);
  if (places === "anywhere") return [...head, ...rest];
  return [...head, ...rest.map((message) => (isSystem(message) ? asUser(message) : message))];
}

function isSystem({ role }: Message): boolean {
  return role === Role.SYSTEM;
}

function asUser(message: HistoryMessage): HistoryMessage {
  const marked = [textPart(SYSTEM_MARKS.open), ...message.parts, textPart(SYSTEM_MARKS.close)];
  return { role: Role.USER, parts: marked, ...countOf(message) };
}

function withCallsApart(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  const apart: HistoryMessage[] = [];
  let turns: readonly HistoryMessage[] = [];
  let results: HistoryMessage[] = [];
  const flush = () => {
    const byCall = new Map<string | undefined, HistoryMessage[]>(turns.map((turn) => [callIdOf(turn), []]));
    const others = results.filter((result) => !byCall.get(callIdOf(result))?.push(result));
    for (const turn of turns) apart.push(turn, ...(byCall.get(callIdOf(turn))?.splice(0) ?? []));
    apart.push(...others);
    turns = [];
    results = [];
  };
  for (const message of messages) {
    if (message.role === Role.TOOL) results.push(message);
    else {
      flush();
      turns = oneCallEach(message);
    }
  }
  flush();
  return apart;
}

function oneCallEach(message: HistoryMessage): readonly HistoryMessage[] {
  const turns: Part[][] = [[]];
  for (const part of message.parts) {
    if (part.kind?.$case === "toolCall" && turns.at(-1)?.some(({ kind }) => kind?.$case === "toolCall")) turns.push([]);
    turns.at(-1)?.push(part);
  }
  return turns.length === 1 ? [message] : turns.map((parts) => ({ ...message, parts }));
}

function callIdOf({ parts }: Message): string | undefined {
  const kinds = parts.map(({ kind }) => kind);
  const kind = kinds.find((one) => one?.$case === "toolCall" || one?.$case === "toolResult");
  return kind?.$case === "toolCall" || kind?.$case === "toolResult" ? kind.value.callId : undefined;
}

function inTurns(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  const turns: HistoryMessage[] = [];
  let neighbours: HistoryMessage[] = [];
  const flush = () => {
    turns.push(...joined(neighbours));
    neighbours = [];
  };
  for (const message of messages) {
    const last = neighbours.at(-1);
    if (last && !isOneTurn(last, message)) flush();
    if (last?.role === Role.TOOL && message.role === Role.USER)
      turns.push({ role: Role.ASSISTANT, parts: [textPart(SILENT_TURN)], ...countOf(message) });
    neighbours.push(message);
  }
  flush();
  return turns;
}

/** Returns whether two adjacent messages are one turn. Text after a call is not joined to the message with the call. */
function isOneTurn(before: HistoryMessage, { role }: Message): boolean {
  if (before.role !== role || role === Role.TOOL || before.isClosed) return false;
  return !before.parts.some(({ kind }) => kind?.$case === "toolCall");
}

function joined(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  const [first] = messages;
  const last = messages.at(-1);
  if (!first || !last || messages.length === 1) return messages;
  const name = messages.every((message) => message.name === first.name) ? first.name : undefined;
  return [{ role: first.role, parts: messages.flatMap(({ parts }) => parts), name, ...countOf(last) }];
}

export function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

export function says(role: Role, ...parts: Part[]): Message {
  return { role, parts };
}
