import { createHash } from "node:crypto";
import { withDeclaredTools } from "../../../../engine/conversation/history/declared-tools.ts";
import {
  ANY_ORDER,
  type HistoryRules,
  modelHistory,
  writtenBy,
} from "../../../../engine/conversation/history/model-history.ts";
import {
  type ImagePart,
  type Message,
  type Part,
  Role,
  type Tool,
} from "../../../../proto/gen/svc/inference/v1/messages.ts";

const TOKEN_UNITS = 4;
/** The most bytes of a simulated token: a UTF-16 unit takes at most three. */
export const LONGEST_TOKEN_BYTES = 3 * TOKEN_UNITS;
const IMAGE_TOKENS = 256;

const RULES: HistoryRules = { turns: ANY_ORDER, callIds: "any", images: true, counted: true };

export type RenderedPrompt = {
  readonly text: string;
  /** The position of the caller's last cache breakpoint in the text, in UTF-16 units; 0 without one. */
  readonly breakpointAt: number;
  /** The positions after the requested numbers of messages, in UTF-16 units. */
  readonly ends: readonly number[];
};

/**
 * Renders the prompt as text. Continuing a conversation only appends to its text. `counts` are the numbers of messages
 * after which positions are needed, ascending. Throws `EngineError` for a message without a role, and for an image
 * without inline data.
 */
export function renderPrompt(
  tools: readonly Tool[],
  messages: readonly Message[],
  counts: readonly number[] = [],
): RenderedPrompt {
  let text = "";
  let breakpointAt = 0;
  for (const tool of tools.filter(({ deferred }) => !deferred)) {
    text += `tool ${tool.name} ${tool.description} ${tool.parametersJsonSchema}\n`;
    if (tool.cacheBreakpoint) breakpointAt = text.length;
  }
  const history = modelHistory(withDeclaredTools(messages, tools), RULES);
  const begins: number[] = [];
  for (const { role, parts } of history) {
    begins.push(text.length);
    text += head(role);
    for (const part of parts) {
      text += renderPart(part);
      if (part.cacheBreakpoint) breakpointAt = text.length;
    }
    text += "\n";
  }
  const ends = writtenBy(history, counts).map((written) => begins[written] ?? text.length);
  return { text: text + head(Role.ASSISTANT), breakpointAt, ends };
}

export function renderAnswered(prompt: Pick<RenderedPrompt, "text">, answer: readonly Part[]): string {
  return `${prompt.text + answer.map(renderPart).join("")}\n`;
}

export function wholeTokens(units: number): number {
  return Math.floor(units / TOKEN_UNITS);
}

export function countTokens(text: string): number {
  return Math.ceil(text.length / TOKEN_UNITS);
}

function head(role: Role): string {
  return `role ${role}\n`;
}

function renderPart({ kind }: Part): string {
  switch (kind?.$case) {
    case "text":
      return kind.value.text;
    case "toolCall":
      return `call ${kind.value.callId} ${kind.value.name} ${kind.value.argumentsJson}\n`;
    case "toolResult":
      return `result ${kind.value.callId} ${kind.value.content.map(renderPart).join("")}\n`;
    case "image":
      return renderImage(kind.value);
    case "reasoning": // Templates drop the reasoning of earlier turns.
    case "toolDeclaration":
    case undefined:
      return "";
    default:
      kind satisfies never;
      return "";
  }
}

function renderImage({ source, contentSha256 }: ImagePart): string {
  const known = contentSha256.length > 0 ? contentSha256 : (source?.value ?? "");
  const digest = createHash("sha256").update(known).digest("hex");
  return `image ${digest} `.padEnd(IMAGE_TOKENS * TOKEN_UNITS, ".");
}
