import { planReasoning, planToolUse } from "../../../../engine/backends/request-plan.ts";
import { exampleValue, readSchema, type Schema } from "../../../../engine/backends/scripted/example-value.ts";
import { EngineError } from "../../../../engine/errors.ts";
import {
  type BlockStarted,
  FinishReason,
  type GenerateRequest,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Part } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { hashText } from "./prefix-cache.ts";

export type PlannedBlock = {
  readonly block: NonNullable<BlockStarted["block"]>;
  /** The tokens of the block; at least one, none of them empty. */
  readonly tokens: readonly string[];
  readonly complete: boolean;
};

export type PlannedAnswer = {
  readonly blocks: readonly PlannedBlock[];
  readonly reason: FinishReason;
  readonly matchedStop?: string;
};

/** What answers are drawn from, beside the request. */
export type AnswerDraw = {
  /** The length of answers that nothing else ends, drawn for each request. */
  readonly answerTokens: { readonly min: number; readonly max: number };
  /** Nodes with the same seed give the same answer to the same request. */
  readonly seed: number;
};

const WORDS =
  "a the and or of to in by for with on at as is are was node engine token model prompt answer step rate cache slot queue".split(
    " ",
  );
/** The number of token ids, about that of the simulated models. */
const VOCABULARY_SIZE = 151_936;
/** The number of reasoning tokens, unless a limit of the request is lower. */
const REASONING_TOKENS = { min: 8, max: 64 };

/** Plans the answer to `request`, whose rendered prompt is `prompt`. Throws `EngineError` for an invalid request. */
export function planAnswer(
  request: GenerateRequest,
  prompt: string,
  { seed, answerTokens }: AnswerDraw,
): PlannedAnswer {
  const { sampling, reasoning, toolChoice, outputConstraint } = request;
  const { callable, mustCall } = planToolUse(request);
  const facts = JSON.stringify([seed, sampling?.seed, reasoning, toolChoice, outputConstraint]);
  const hash = hashText(facts, hashText(prompt));
  const random = seededRandom(hash.first ^ hash.second);
  const between = ({ min, max }: { readonly min: number; readonly max: number }) =>
    min + Math.floor(random() * (max - min + 1));
  const blocks: PlannedBlock[] = [];
  const { wanted, budgetTokens = Number.POSITIVE_INFINITY } = planReasoning(reasoning, undefined);
  if (wanted) {
    const tokens = words(Math.min(between(REASONING_TOKENS), budgetTokens), random);
    if (tokens.length > 0) blocks.push({ block: { $case: "reasoning", value: {} }, tokens, complete: true });
  }
  const tool = mustCall ? callable[0] : undefined;
  if (tool) {
    const made = `call_${hash.first.toString(16).padStart(8, "0")}${hash.second.toString(16).padStart(8, "0")}`;
    const callId = request.continuation?.callIds[0] ?? made;
    const tokens = jsonTokens(exampleText(tool.parametersJsonSchema, "tools", { type: "object" }));
    blocks.push({ block: { $case: "toolCall", value: { callId, name: tool.name } }, tokens, complete: true });
    return { blocks, reason: FinishReason.TOOL_CALLS };
  }
  const tokens = constrained(request) ?? words(between(answerTokens), random);
  return withStop(blocks, tokens, sampling?.stop ?? []);
}

export function cutAnswer(answer: PlannedAnswer, limit: number, reason: FinishReason): PlannedAnswer {
  let left = limit;
  const blocks: PlannedBlock[] = [];
  for (const block of answer.blocks) {
    if (block.tokens.length <= left) blocks.push(block);
    else if (left > 0) blocks.push({ ...block, tokens: block.tokens.slice(0, left), complete: false });
    if (block.tokens.length > left) return { blocks, reason };
    left -= block.tokens.length;
  }
  return answer;
}

export function answerLength({ blocks }: PlannedAnswer): number {
  return blocks.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

export function tokenIds({ blocks }: PlannedAnswer): readonly number[] {
  return blocks.flatMap(({ tokens }) => tokens.map((text) => hashText(text).first % VOCABULARY_SIZE));
}

/** Returns the answer as callers send it back in their next request; prompts contain no reasoning. */
export function answerParts({ blocks }: PlannedAnswer): readonly Part[] {
  const parts: Part[] = [];
  for (const { block, tokens } of blocks) {
    const text = tokens.join("");
    const cacheBreakpoint = undefined;
    if (block.$case === "text") parts.push({ kind: { $case: "text", value: { text } }, cacheBreakpoint });
    if (block.$case === "toolCall")
      parts.push({ kind: { $case: "toolCall", value: { ...block.value, argumentsJson: text } }, cacheBreakpoint });
  }
  return parts;
}

function constrained({ outputConstraint }: GenerateRequest): readonly string[] | undefined {
  const kind = outputConstraint?.kind;
  if (kind?.$case === "jsonObject") return jsonTokens("{}");
  if (kind?.$case !== "jsonSchema") return undefined;
  try {
    return jsonTokens(exampleText(kind.value.schemaJson, "output_constraint"));
  } catch (error) {
    // A schema that is not strict is dropped, as the grammar writer does.
    if (kind.value.strict || !(error instanceof EngineError && error.facts.fault === "costly")) throw error;
    return jsonTokens("{}");
  }
}

function exampleText(schemaJson: string, path: string, form: Schema = {}): string {
  return JSON.stringify(exampleValue({ ...readSchema(schemaJson, path), ...form }));
}

function jsonTokens(json: string): readonly string[] {
  return json.match(/.{1,4}/gsu) ?? [];
}

function words(count: number, random: () => number): readonly string[] {
  return Array.from({ length: count }, (_, at) => {
    const word = WORDS[Math.floor(random() * WORDS.length)] ?? "token";
    return (at === 0 ? "" : " ") + word + (at === count - 1 ? "." : "");
  });
}

function withStop(before: PlannedBlock[], tokens: readonly string[], stop: readonly string[]): PlannedAnswer {
  const text = tokens.join("");
  let end = text.length;
  let matchedStop: string | undefined;
  for (const candidate of stop) {
    const at = candidate === "" ? -1 : text.indexOf(candidate);
    if (at < 0 || at >= end) continue;
    end = at;
    matchedStop = candidate;
  }
  const kept = firstUnits(tokens, end);
  const blocks: PlannedBlock[] =
    kept.length === 0 ? before : [...before, { block: { $case: "text", value: {} }, tokens: kept, complete: true }];
  if (matchedStop === undefined) return { blocks, reason: FinishReason.STOP };
  return { blocks, reason: FinishReason.STOP_SEQUENCE, matchedStop };
}

function firstUnits(tokens: readonly string[], units: number): readonly string[] {
  const kept: string[] = [];
  let left = units;
  for (const token of tokens) {
    if (left <= 0) break;
    kept.push(token.slice(0, left));
    left -= token.length;
  }
  return kept;
}

/** A mixed Weyl sequence, the same as in earlier releases, so that they continue each other's answers. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
