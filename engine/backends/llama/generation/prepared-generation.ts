import { randomInt } from "node:crypto";
import type { SequenceEvaluateOptions, Token } from "node-llama-cpp";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { GenerateRequest, Sampling } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { needsGrammar } from "../../../caller-work/grammar-input.ts";
import { keepMs } from "../../../conversation/cache-breakpoints.ts";
import { EngineError } from "../../../errors.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { OutputParser } from "../../../output-parser/output-parser.ts";
import { type PrefixMark, prefixMarks } from "../../../prefixes/prefix-marks.ts";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import { formOf } from "../../../tool-calls/forms.ts";
import { argumentTypes } from "../../../tool-calls/readers/argument-types.ts";
import { limitOutput, type OutputLimit } from "../../request-plan/output-limit.ts";
import { GrammarGate } from "../grammar/grammar-gate.ts";
import type { Demand } from "../slots/slots.ts";
import type { Prompt } from "../tokens/prompt-encoder.ts";
import { type SamplingOptions, toSamplingOptions, usedSampling, wantedLogprobs } from "../tokens/sampling.ts";
import { Utf8Holder } from "../tokens/utf8-holder.ts";
import type { Vocabulary } from "../tokens/vocabulary.ts";
import { Answer } from "./answer.ts";
import { type AnswerPlan, planAnswer } from "./answer-plan.ts";
import type { EngineParts } from "./engine-parts.ts";

/** A request with everything checked and counted, before it takes a slot. */
export type PreparedGeneration = OutputLimit & {
  /** The demand that the request has of a slot. */
  readonly demand: Demand;
  /** The time for which the cache of the prompt is to stay in its slot afterwards, in milliseconds. */
  readonly keepMs: number;
  /**
   * The number of tokens of the prompt up to the last place that the caller marked as the end of a reusable prefix; 0
   * without one.
   */
  readonly markedTokens: number;
  /** The answer, still empty. */
  readonly answer: Answer;
  /** Holds the answer to its grammar. */
  readonly gate: GrammarGate;
  /** The tokens so far, which the sampler's penalties read too. */
  readonly generated: Token[];
  /** The parameters of sampling in the words of the contract, with the model's defaults filled in. */
  readonly sampling: Sampling;
  /** The parameters with which the library is to sample. */
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** The number of alternatives per token; undefined without log probabilities. */
  readonly topLogprobs: number | undefined;
  /** The tokens that are written in the model's place when it has reasoned for long enough. */
  readonly reasoningEnd: readonly Token[];
};

/**
 * Checks and counts a request. Throws `EngineError` for everything that can be known to be wrong before work starts,
 * and when the caller leaves.
 */
export async function prepareGeneration(
  parts: EngineParts,
  request: GenerateRequest,
  order: WorkOrder,
): Promise<PreparedGeneration> {
  const { runtime, markers, profile } = parts;
  const plan = planAnswer(request, profile);
  const generated: Token[] = [];
  const topLogprobs = wantedLogprobs(request.sampling);
  const sampling = samplingOf(parts, plan, request.sampling, generated);
  const marks = prefixMarks(request);
  const counts = marks.map(({ messages }) => messages);
  const prompt = await parts.prompts.encode({ ...plan.conversation, counts }, order);
  const limit = limitOutput(request, prompt.tokens.length, runtime.contextWindow);
  const answer = newAnswer(parts, plan, prompt);
  const gate = await newGate(parts, plan, prompt, order);
  const { reasoning } = markers;
  return {
    ...limit,
    demand: {
      prompt: prompt.tokens,
      isolation: JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]),
      affinityKey: request.cache?.affinityKey ?? "",
      line: lineOf(request.model, marks, prompt),
    },
    keepMs: keepMs(request),
    markedTokens: prompt.markedTokens,
    answer,
    gate,
    generated,
    sampling: usedSampling(sampling),
    evaluateOptions: { ...sampling, grammarEvaluationState: () => gate.state(), yieldEogToken: true },
    topLogprobs,
    reasoningEnd: reasoning
      ? runtime.model.tokenize(reasoning.beforeClose + reasoning.close + reasoning.afterClose, true)
      : [],
  };
}

/** Returns where the digests of a request stand in its prompt; undefined where it has none. */
function lineOf(model: string, marks: readonly PrefixMark[], { places }: Prompt): SlotLine | undefined {
  if (marks.length === 0) return undefined;
  return { model, places: marks.map(({ digest }, index) => ({ digest, tokens: places[index] ?? 0 })) };
}

function samplingOf(
  { runtime, vocabulary, markers, markTokens, samplingDefaults }: EngineParts,
  { conversation, callable, fixed }: AnswerPlan,
  sampling: Sampling | undefined,
  generated: readonly Token[],
): SamplingOptions {
  const callMark = openingToken(markers, vocabulary);
  // A model that sees tools would call them even where the caller wants none called.
  const mustNotCall = conversation.tools.length > 0 && callable.length === 0;
  const callMarks = mustNotCall && callMark !== undefined ? [callMark] : [];
  // A grammar takes their spelling for text, and nobody would see it.
  const hidden = needsGrammar(fixed) ? vocabulary.hiddenTokens.filter((token) => !markTokens.has(token)) : [];
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
  { runtime, markers, markTokens, work }: EngineParts,
  { callable, maxCalls, stop, newCallId, json, reasoningBudget }: AnswerPlan,
  prompt: Prompt,
): Answer {
  const parser = new OutputParser({
    markers,
    startsInReasoning: prompt.startsInReasoning,
    toolNames: callable.map(({ name }) => name),
    argumentTypes: argumentTypes(callable),
    maxToolCalls: maxCalls,
    stop,
    newCallId,
    onFault: (thrown) => work.parseFailed(thrown),
  });
  const { model } = runtime;
  const isMark = (id: Token) => markTokens.has(id);
  const characters = new Utf8Holder<Token>(
    (ids, before) => model.detokenize(ids, ids.some(isMark), before),
    prompt.tokens,
  );
  return new Answer({ parser, characters, json, reasoningBudget });
}

async function newGate(
  { runtime, markers, grammars }: EngineParts,
  { conversation, fixed, mustCall, json }: AnswerPlan,
  prompt: Prompt,
  order: WorkOrder,
): Promise<GrammarGate> {
  if (mustCall && !markers.toolCall) {
    throw new EngineError("UNSUPPORTED_FEATURE", "tool_choice: this model calls no tools.");
  }
  const reasoning = prompt.startsInReasoning ? "opened" : conversation.reasoning ? "may-open" : "none";
  const grammar = await grammars.get({ ...fixed, markers, reasoning }, order);
  if ((mustCall || json !== undefined) && prompt.continuesText) {
    throw new EngineError("UNSUPPORTED_FEATURE", "messages: an answer of a fixed form cannot be begun by the caller.");
  }
  const { model, library } = runtime;
  return new GrammarGate(grammar, (from) => new library.LlamaGrammarEvaluationState({ model, grammar: from }));
}

/** Returns the token that opens a call; undefined where the model has none. */
function openingToken({ toolCall }: OutputMarkers, vocabulary: Vocabulary): Token | undefined {
  const open = toolCall && formOf(toolCall).markup(toolCall)?.open;
  return open === undefined || open === "" ? undefined : vocabulary.markerToken(open);
}
