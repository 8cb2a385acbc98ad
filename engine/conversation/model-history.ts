import { type Message, type Part, Role, type ToolResultPart } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import { type CallIdRule, withCallIds } from "./call-ids.ts";
import type { TurnRules } from "./turn-rules.ts";

/** What a model's chat template and its engine take of a conversation. */
export type HistoryRules = {
  /** What the template takes of the order of messages. */
  readonly turns: TurnRules;
  /** What the template demands of the ids of calls. */
  readonly callIds: CallIdRule;
  /** Whether the model takes images, as data. */
  readonly images: boolean;
};

/** The text between the texts of one message, as they are paragraphs of their own and not one word cut in two. */
export const PART_SEPARATOR = "\n";

/** The text in front of the result of a tool that says it failed, as templates have no place for that. */
export const FAILED_TOOL = "[The tool call failed.]";

/** The words of the model's turn between a tool's result and a user, where a template wants one and there was none. */
const SILENT_TURN = "OK.";

/** The texts around a system message that stands where the template takes none, and is written as a user's. */
const SYSTEM_MARKS = { open: "<system>", close: "</system>" };

/**
 * Returns the messages of a request as the model's template takes them, the same for every backend: the system messages
 * at the beginning are one; later ones stay where they are, in a user's role and between marks where the template takes
 * no system message there, so that no turn changes the prompt in front of it; a tool's failure is text; calls have the
 * ids that the template wants. Each tool result is a message of its own. Throws `EngineError`, with the path of the
 * message, for what the model cannot take.
 */
export function modelHistory(messages: readonly Message[], rules: HistoryRules): readonly Message[] {
  for (const [index, message] of messages.entries()) check(message, `messages[${index}]`, rules);
  const { systemMessages, alternates, singleCalls } = rules.turns;
  const placed = withSystemPlaced(messages.flatMap(withResultsApart), systemMessages);
  const told = singleCalls ? withCallsApart(placed) : placed;
  return withCallIds(alternates ? inTurns(told) : told, rules.callIds);
}

/** Returns the visible text of parts. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap(({ kind }) => (kind?.$case === "text" ? [kind.value.text] : [])).join(PART_SEPARATOR);
}

/** Returns the reasoning in parts, "" without any; redacted reasoning is left out, as nobody here can read it. */
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
    checkImage(kind, partPath, images);
    if (kind?.$case !== "toolResult") continue;
    for (const [at, part] of kind.value.content.entries()) checkImage(part.kind, `${partPath}.content[${at}]`, images);
  }
}

function checkImage(kind: Part["kind"], path: string, images: boolean): void {
  if (kind?.$case !== "image" || (images && kind.value.source?.$case === "data")) return;
  throw new EngineError("UNSUPPORTED_FEATURE", `${path}: this model does not take such images.`);
}

/** Returns a message as it is, or, where it holds tool results, those as messages of their own before the rest. */
function withResultsApart(message: Message): readonly Message[] {
  const results = message.parts.flatMap((part) =>
    part.kind?.$case === "toolResult" ? [resultMessage(part, part.kind.value)] : [],
  );
  if (results.length === 0) return [message];
  const rest = message.parts.filter(({ kind }) => kind?.$case !== "toolResult");
  return rest.length === 0 ? results : [...results, { ...message, parts: rest }];
}

function resultMessage(part: Part, result: ToolResultPart): Message {
  if (!result.isError) return { role: Role.TOOL, parts: [part] };
  const content = [textPart(FAILED_TOOL), ...result.content];
  return { role: Role.TOOL, parts: [{ ...part, kind: { $case: "toolResult", value: { ...result, content } } }] };
}

function withSystemPlaced(messages: readonly Message[], places: TurnRules["systemMessages"]): readonly Message[] {
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

function asUser({ parts }: Message): Message {
  const marked = [textPart(SYSTEM_MARKS.open), ...parts, textPart(SYSTEM_MARKS.close)];
  return { role: Role.USER, parts: marked };
}

/** Writes a turn of several calls as several turns of one call, each with the results of its own. */
function withCallsApart(messages: readonly Message[]): readonly Message[] {
  const apart: Message[] = [];
  let turns: readonly Message[] = [];
  let results: Message[] = [];
  const flush = () => {
    const byCall = new Map<string | undefined, Message[]>(turns.map((turn) => [callIdOf(turn), []]));
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

/** Cuts a message behind each of its calls but the last. */
function oneCallEach(message: Message): readonly Message[] {
  const turns: Part[][] = [[]];
  for (const part of message.parts) {
    if (part.kind?.$case === "toolCall" && turns.at(-1)?.some(({ kind }) => kind?.$case === "toolCall")) turns.push([]);
    turns.at(-1)?.push(part);
  }
  return turns.length === 1 ? [message] : turns.map((parts) => ({ ...message, parts }));
}

/** Returns the id of the first call or result of a message. */
function callIdOf({ parts }: Message): string | undefined {
  const kinds = parts.map(({ kind }) => kind);
  const kind = kinds.find((one) => one?.$case === "toolCall" || one?.$case === "toolResult");
  return kind?.$case === "toolCall" || kind?.$case === "toolResult" ? kind.value.callId : undefined;
}

/** Joins neighbours of one role, and puts a turn of the model between a tool's result and a user. */
function inTurns(messages: readonly Message[]): readonly Message[] {
  const turns: Message[] = [];
  let neighbours: Message[] = [];
  const flush = () => {
    turns.push(...joined(neighbours));
    neighbours = [];
  };
  for (const message of messages) {
    const last = neighbours.at(-1);
    if (last && !isOneTurn(last, message)) flush();
    if (last?.role === Role.TOOL && message.role === Role.USER)
      turns.push({ role: Role.ASSISTANT, parts: [textPart(SILENT_TURN)] });
    neighbours.push(message);
  }
  flush();
  return turns;
}

/** Returns whether two neighbours are one turn: what stands behind a call is not joined to what was said before it. */
function isOneTurn(before: Message, { role }: Message): boolean {
  if (before.role !== role || role === Role.TOOL) return false;
  return !before.parts.some(({ kind }) => kind?.$case === "toolCall");
}

/** Joins messages of one role into one, none into none; the name stays where all have it. */
function joined(messages: readonly Message[]): readonly Message[] {
  const [first] = messages;
  if (!first || messages.length === 1) return messages;
  const name = messages.every((message) => message.name === first.name) ? first.name : undefined;
  return [{ role: first.role, parts: messages.flatMap(({ parts }) => parts), name }];
}

function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}
