import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ToolCallMarkers } from "../../tool-calls/forms.ts";
import { toolText } from "./declared-tools.ts";
import { FAILED_TOOL, type HistoryMessage, type HistoryPart, says, textPart } from "./model-history.ts";

/** The form of calls that a conversation without tools can show: JSON between two marks. */
export type TextCalls = Extract<ToolCallMarkers, { readonly form: "json" }>;

const RESULT = { open: "<tool_response>", close: "</tool_response>" };

/** Changes callers' texts, so that they have no marks. */
type Breaking = (text: string) => string;

const UNCHANGED: Breaking = (text) => text;

/**
 * Returns a conversation for a template without tools: they stand behind the leading system messages, calls are text of
 * the model, and results are text of the user. The marks are the node's own; `broken` changes what callers wrote beside
 * them. At most one message is added, at the front.
 */
export function withCallsAsText(
  messages: readonly Message[],
  tools: readonly Tool[],
  form: TextCalls,
  broken: Breaking = UNCHANGED,
): readonly HistoryMessage[] {
  const written = messages.map((message) => asText(message, form, broken));
  const shown = tools.flatMap((tool, index) => (tool.deferred ? [] : [broken(toolText(tool, index))]));
  if (shown.length === 0) return written;
  const instructions = ownPart(instructionsOf(shown, form));
  const spoken = written.findIndex(({ role }) => role !== Role.SYSTEM);
  const leading = spoken < 0 ? written.length : spoken;
  const last = written[leading - 1];
  if (!last) return [says(Role.SYSTEM, instructions), ...written];
  return written.with(leading - 1, { ...last, parts: [...last.parts, instructions] });
}

const ownPart = (text: string): HistoryPart => ({ ...textPart(text), isOwn: true });

function asText(message: Message, form: TextCalls, broken: Breaking): HistoryMessage {
  const { role, parts } = message;
  const calls = parts.some(({ kind }) => kind?.$case === "toolCall");
  if (!calls && !parts.some(({ kind }) => kind?.$case === "toolResult")) return message;
  const texts = parts.flatMap((part) => partsAsText(part, form, broken));
  return { ...message, role: role === Role.TOOL ? Role.USER : role, parts: texts, ...(calls && { isClosed: true }) };
}

function partsAsText(part: Part, form: TextCalls, broken: Breaking): readonly HistoryPart[] {
  const { kind } = part;
  if (kind?.$case === "toolCall") {
    const { name, argumentsJson } = kind.value;
    return [{ ...part, ...ownPart(callText(broken(JSON.stringify(name)), broken(argumentsJson || "{}"), form)) }];
  }
  if (kind?.$case !== "toolResult") return [part];
  const { content, isError } = kind.value;
  const failed = isError ? [ownPart(FAILED_TOOL)] : [];
  return [ownPart(RESULT.open), ...failed, ...content, { ...part, ...ownPart(RESULT.close) }];
}

function callText(name: string, args: string, { open, afterOpen, beforeClose, close }: TextCalls): string {
  return `${open}${afterOpen}{"name": ${name}, "arguments": ${args}}${beforeClose}${close}`;
}

function instructionsOf(tools: readonly string[], form: TextCalls): string {
  return [
    "You can call these tools:",
    ...tools,
    "To call a tool, write its name and its arguments as JSON, in exactly this form:",
    callText('"name of the tool"', '{"name of an argument": "its value"}', form),
    `The next message then has the result between ${RESULT.open} and ${RESULT.close}. Where no tool is needed, answer in plain text.`,
  ].join("\n");
}
