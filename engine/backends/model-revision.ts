import { createHash } from "node:crypto";
import * as z from "zod";
import {
  CountTokensRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { says, textPart } from "../conversation/history/model-history.ts";
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

export type ModelIdentity = {
  /** 16 hex digits, equal for nodes with the same weights, vocabulary and marks, whose test prompts are alike. */
  readonly revision: string;
  /** 16 hex digits, equal for nodes with the same weights, vocabulary and marks, however they render prompts. */
  readonly basis: string;
};

/** Resolves to the digests by which nodes may continue each other's answers. */
export async function modelIdentity(weights: string, reading: ModelReading): Promise<ModelIdentity> {
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
  const { vocabularyTokens, markers } = reading;
  const marks = [markers.reasoning, markers.toolCall, markers.text];
  return {
    revision: digestOf([weights, prompts, vocabularyTokens, ...marks]),
    basis: digestOf([weights, vocabularyTokens, ...marks]),
  };
}

/** Returns 32 hex digits, equal for prompts of the same tokens on nodes of the same basis. */
export function promptDigest(basis: string, tokens: ArrayLike<number>): string {
  const { buffer, byteOffset, byteLength } = Uint32Array.from(tokens);
  return createHash("sha256")
    .update(basis)
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest("hex")
    .slice(0, 32);
}

function digestOf(read: readonly unknown[]): string {
  const sorted = (_key: string, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return createHash("sha256").update(JSON.stringify(read, sorted)).digest("hex").slice(0, 16);
}
