import { createHash } from "node:crypto";
import * as z from "zod";
import {
  CountTokensRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { says, textPart } from "../conversation/model-history.ts";
import { EngineError } from "../errors.ts";
import type { OutputMarkers } from "../output-parser/markers.ts";

/**
 * The setting that names the weights. No engine reports which numbers it computes with: a path or a name says nothing
 * about a quantisation, and a GGUF file's metadata nothing about the folder that another engine has loaded.
 */
export const weightsSetting = z
  .string()
  .min(1)
  .optional()
  .describe(
    "Name of the weights and their quantisation: nodes beside different engines with the same name continue each other's answers, where prompts and vocabulary are alike too. Without it only nodes beside the same engine, or with the same model file, do so.",
  );

/** A text in which vocabularies of one size differ: scripts, digits, white space, code and signs. */
export const VOCABULARY_TEXT =
  'Größe naïve Привет 你好世界 こんにちは مرحبا 한국어 🙂👩‍👩‍👧 1234567890 3.14159 0x1F\n\n\tfor (let i = 0; i < 10; i++) {\n        a[i] ??= "\\u00e9";   // don\'t\n    }\r\n';

const CALL = { callId: "call00001", name: "look_up" };
const TOOL: Tool = {
  name: CALL.name,
  description: "Looks a word up.",
  parametersJsonSchema:
    '{"type":"object","properties":{"word":{"type":"string"},"n":{"type":"integer"}},"required":["word"]}',
  strict: false,
  deferred: false,
  cacheBreakpoint: undefined,
};
const NO_EFFORT = { effort: ReasoningEffort.UNSPECIFIED };

/** The conversations whose prompts are compared: with and without tools, calls and reasoning. */
const CONVERSATIONS: readonly CountTokensRequest[] = [
  {
    messages: [
      says(Role.USER, textPart("Hello.")),
      says(Role.ASSISTANT, textPart("Hello!\nWhat is it?")),
      says(Role.USER, textPart(VOCABULARY_TEXT)),
    ],
    tools: [],
    reasoning: { mode: ReasoningMode.DISABLED, ...NO_EFFORT },
  },
  {
    messages: [
      says(Role.USER, textPart("Look it up.")),
      says(Role.ASSISTANT, {
        kind: { $case: "toolCall", value: { ...CALL, argumentsJson: '{"word": "é", "n": 1}' } },
      }),
      says(Role.TOOL, {
        kind: { $case: "toolResult", value: { ...CALL, content: [textPart("a letter")], isError: false } },
      }),
    ],
    tools: [TOOL],
    reasoning: { mode: ReasoningMode.ENABLED, ...NO_EFFORT },
  },
].map((conversation) => ({ ...CountTokensRequest.create(), ...conversation }));

export type ModelReading = {
  /** Resolves to the text of a conversation's prompt, special tokens included. Throws `EngineError`. */
  readonly promptOf: (conversation: CountTokensRequest) => Promise<string>;
  readonly vocabularyTokens: readonly number[];
  readonly markers: OutputMarkers;
};

/** Templates write the day into the prompt. */
const DATES = /\d{4}-\d{2}-\d{2}|\d{1,2} [A-Z][a-z]{2,8},? \d{4}|[A-Z][a-z]{2,8} \d{1,2},? \d{4}/g;

/**
 * Resolves to 16 hex digits, equal for nodes that can go on with each other's answers: with the same weights, prompts,
 * vocabulary and marks.
 */
export async function modelRevision(weights: string, reading: ModelReading): Promise<string> {
  const prompts: string[] = [];
  for (const conversation of CONVERSATIONS) {
    try {
      prompts.push((await reading.promptOf(conversation)).replace(DATES, "DATE"));
    } catch (error) {
      // A template without tools refuses the second one, beside every engine.
      if (!(error instanceof EngineError) || !["INVALID_REQUEST", "ENGINE_ERROR"].includes(error.reason)) throw error;
      prompts.push("refused");
    }
  }
  const { reasoning, toolCall, text: around } = reading.markers;
  const sorted = (_key: string, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  const read = JSON.stringify([weights, prompts, reading.vocabularyTokens, reasoning, toolCall, around], sorted);
  return createHash("sha256").update(read).digest("hex").slice(0, 16);
}
