import { randomInt } from "node:crypto";
import type { SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { FinishReason, type GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { keepMs, upToBreakpoint } from "../../../conversation/cache-breakpoints.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";
import { EngineError } from "../../../errors.ts";
import { AnswerCheck } from "../../../grammar/validation/answer-check.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { OutputParser } from "../../../output-parser/output-parser.ts";
import { formOf } from "../../../tool-calls/forms.ts";
import { argumentTypes } from "../../../tool-calls/readers/argument-types.ts";
import { throwIfLeft } from "../../caller-left.ts";
import { GrammarGate } from "../grammar/grammar-gate.ts";
import { type GrammarWish, needsGrammar } from "../grammar/grammar-wish.ts";
import { commonLength } from "../slots/common-length.ts";
import type { Demand } from "../slots/slots.ts";
import type { Prompt } from "../tokens/prompt-encoder.ts";
import { type SamplingOptions, toSamplingOptions, wantedLogprobs } from "../tokens/sampling.ts";
import { Utf8Holder } from "../tokens/utf8-holder.ts";
import type { Vocabulary } from "../tokens/vocabulary.ts";
import { Answer } from "./answer.ts";
import { type AnswerPlan, planAnswer } from "./answer-plan.ts";
import type { EngineParts } from "./engine-parts.ts";
import { newCallIds } from "./new-call-id.ts";

/** A request with everything checked and counted, before it takes a slot. */
export type PreparedGeneration = {
  readonly demand: Demand;
  readonly keepMs: number;
  /** Tokens of the prompt up to the last place that the caller marked as the end of a reusable prefix; 0 without one. */
  readonly markedTokens: number;
  readonly answer: Answer;
  /** Of what the grammar has promised. */
  readonly check: AnswerCheck;
  readonly gate: GrammarGate;
  /** Tokens so far; the sampler's penalties read it too. */
  readonly generated: Token[];
  readonly maxOutputTokens: number;
  /** Why the answer ends at `maxOutputTokens`. */
  readonly limitReason: FinishReason;
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** Alternatives per token; `undefined` without log probabilities. */
  readonly topLogprobs: number | undefined;
  /** Ends the reasoning when the model has reasoned for long enough. */
  readonly reasoningEnd: readonly Token[];
};

/** Throws `EngineError` for everything that can be known to be wrong before work starts. */
export async function prepareGeneration(
  parts: EngineParts,
  request: GenerateRequest,
  signal: AbortSignal,
): Promise<PreparedGeneration> {
  const { runtime, markers } = parts;
  const plan = planAnswer(request, parts.profile.thinking);
  const generated: Token[] = [];
  const topLogprobs = wantedLogprobs(request.sampling);
  const sampling = samplingOf(parts, request, plan, generated);
  const { messages, tools } = request;
  const { reasoning: reasons, effortVariables } = plan;
  const conversation = { messages, tools, reasoning: reasons, effortVariables };
  const prompt = await parts.prompts.encode(conversation, signal);
  const room = roomAfter(prompt.tokens.length, runtime.contextWindow);
  const asked = askedTokens(request);
  const answer = newAnswer(parts, request, plan, prompt);
  const gate = await newGate(parts, request, plan, prompt, signal);
  const { reasoning } = markers;
  return {
    demand: {
      prompt: prompt.tokens,
      isolation: JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]),
      affinityKey: request.cache?.affinityKey ?? "",
    },
    keepMs: keepMs(request),
    markedTokens: await markedTokens(parts, conversation, prompt, signal),
    answer,
    check: new AnswerCheck(request, "strict"),
    gate,
    generated,
    maxOutputTokens: Math.min(asked, room),
    limitReason: asked <= room ? FinishReason.MAX_OUTPUT_TOKENS : FinishReason.CONTEXT_WINDOW,
    evaluateOptions: { ...sampling, grammarEvaluationState: () => gate.state(), yieldEogToken: true },
    topLogprobs,
    reasoningEnd: reasoning
      ? runtime.model.tokenize(reasoning.beforeClose + reasoning.close + reasoning.afterClose, true)
      : [],
  };
}

async function markedTokens(
  { prompts }: EngineParts,
  conversation: Conversation,
  prompt: Prompt,
  signal: AbortSignal,
): Promise<number> {
  const marked = upToBreakpoint(conversation);
  if (!marked) return 0;
  try {
    return commonLength((await prompts.encode(marked, signal)).tokens, prompt.tokens);
  } catch (error) {
    throwIfLeft(signal);
    // A template need not take a conversation that breaks off there: then nothing can be said.
    if (error instanceof EngineError) return 0;
    throw error;
  }
}

function samplingOf(
  { runtime, vocabulary, markers, markTokens, samplingDefaults }: EngineParts,
  request: GenerateRequest,
  plan: AnswerPlan,
  generated: readonly Token[],
): SamplingOptions {
  const { sampling, tools } = request;
  const callMark = openingToken(markers, vocabulary);
  // A model that sees tools would call them even where the caller wants none called.
  const mustNotCall = tools.length > 0 && plan.callable.length === 0;
  const callMarks = mustNotCall && callMark !== undefined ? [callMark] : [];
  // A grammar takes their spelling for text, and nobody would see it.
  const hidden = needsGrammar(fixedOf(request, plan))
    ? vocabulary.hiddenTokens.filter((token) => !markTokens.has(token))
    : [];
  return toSamplingOptions({
    sampling,
    defaults: samplingDefaults,
    vocabularySize: vocabulary.size,
    generated,
    randomSeed: () => randomInt(2 ** 32 - 1),
    newBias: () => runtime.library.TokenBias.for(runtime.model),
    banned: [...callMarks, ...hidden],
  });
}

function newAnswer(
  { runtime, profile, markers, markTokens }: EngineParts,
  request: GenerateRequest,
  plan: AnswerPlan,
  prompt: Prompt,
): Answer {
  const parser = new OutputParser({
    markers,
    startsInReasoning: prompt.startsInReasoning,
    toolNames: plan.callable.map(({ name }) => name),
    argumentTypes: argumentTypes(plan.callable),
    ...(plan.maxToolCalls === undefined ? {} : { maxToolCalls: plan.maxToolCalls }),
    stop: request.sampling?.stop ?? [],
    newCallId: newCallIds(profile.callIds, request.messages),
  });
  const { model } = runtime;
  const isMark = (id: Token) => markTokens.has(id);
  const characters = new Utf8Holder<Token>(
    (ids, before) => model.detokenize(ids, ids.some(isMark), before),
    prompt.tokens,
  );
  const { json, reasoningBudget } = plan;
  return new Answer({ parser, characters, json, reasoningBudget });
}

async function newGate(
  { runtime, markers, grammars }: EngineParts,
  request: GenerateRequest,
  plan: AnswerPlan,
  prompt: Prompt,
  signal: AbortSignal,
): Promise<GrammarGate> {
  const { mustCall, json, reasoning } = plan;
  if (mustCall && !markers.toolCall) {
    throw new EngineError("UNSUPPORTED_FEATURE", "tool_choice: this model calls no tools.");
  }
  const wish = {
    ...fixedOf(request, plan),
    markers,
    reasoning: prompt.startsInReasoning ? "opened" : reasoning ? "may-open" : "none",
  } as const;
  const grammar = await grammars.get(wish, signal);
  if ((mustCall || json !== undefined) && prompt.continuesText) {
    throw new EngineError("UNSUPPORTED_FEATURE", "messages: an answer of a fixed form cannot be begun by the caller.");
  }
  const { model, library } = runtime;
  return new GrammarGate(grammar, (from) => new library.LlamaGrammarEvaluationState({ model, grammar: from }));
}

/** What the request fixes of the answer's form. */
function fixedOf(
  { outputConstraint }: GenerateRequest,
  { callable, mustCall, maxToolCalls, json }: AnswerPlan,
): Omit<GrammarWish, "markers" | "reasoning"> {
  const tools = callable.map(({ name, parametersJsonSchema, strict }) => ({ name, parametersJsonSchema, strict }));
  return { tools, mustCall, maxToolCalls, constraint: json && outputConstraint };
}

/** The token that opens a call, where the model has one. */
function openingToken({ toolCall }: OutputMarkers, vocabulary: Vocabulary): Token | undefined {
  const open = toolCall && formOf(toolCall).markup(toolCall)?.open;
  return open === undefined || open === "" ? undefined : vocabulary.markerToken(open);
}

function askedTokens({ maxOutputTokens }: GenerateRequest): number {
  if (maxOutputTokens === undefined) return Number.POSITIVE_INFINITY;
  if (maxOutputTokens >= 1) return maxOutputTokens;
  throw new EngineError("INVALID_REQUEST", "max_output_tokens: must be at least 1.");
}

/** Tokens that fit behind a prompt. The last one generated needs no cell of its own. */
function roomAfter(inputTokens: number, contextWindow: number): number {
  const room = contextWindow - inputTokens;
  if (room >= 1) return room;
  throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "The prompt is longer than the model's context window.", {
    input_tokens: String(inputTokens),
    context_window: String(contextWindow),
  });
}
