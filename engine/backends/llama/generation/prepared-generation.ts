import { randomInt } from "node:crypto";
import type { SequenceEvaluateOptions, Token } from "node-llama-cpp";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type {
  Continuation,
  GenerateRequest,
  Sampling,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { needsGrammar } from "../../../caller-work/grammar-input.ts";
import { keepMs } from "../../../conversation/cache-breakpoints.ts";
import { EngineError, notOfThisAnswer } from "../../../errors.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { OutputParser } from "../../../output-parser/output-parser.ts";
import { type PrefixMark, prefixMarks } from "../../../prefixes/prefix-marks.ts";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import { formOf } from "../../../tool-calls/forms.ts";
import { argumentTypes } from "../../../tool-calls/readers/argument-types.ts";
import { type AnswerPlan, planAnswer } from "../../answer-plan.ts";
import { continuedAnswer, limitOutput, type OutputLimit } from "../../request-plan.ts";
import type { GrammarOrder } from "../grammar/grammar-cache.ts";
import { GrammarGate } from "../grammar/grammar-gate.ts";
import type { Demand } from "../slots/slots.ts";
import type { Prompt } from "../tokens/prompt-encoder.ts";
import { isDrawn, type SamplingOptions, toSamplingOptions, usedSampling, wantedLogprobs } from "../tokens/sampling.ts";
import { Utf8Holder } from "../tokens/utf8-holder.ts";
import type { Vocabulary } from "../tokens/vocabulary.ts";
import { Answer } from "./answer.ts";
import { AnswerCourse, type AnswerStep } from "./answer-course.ts";
import type { EngineParts } from "./engine-parts.ts";
import { takeGivenTokens, tokensBehindHeldText } from "./given-tokens.ts";
import { RepetitionEnd } from "./repetition-end.ts";

export type PreparedGeneration = {
  readonly demand: Demand;
  readonly inputTokens: number;
  readonly keepMs: number;
  readonly markedTokens: number;
  readonly course: AnswerCourse;
  readonly replayed: AnswerStep;
  readonly sampling: Sampling;
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** The caller's seed, from 0 to 2^32 - 2; undefined if sampling does not depend on it. */
  readonly seed: number | undefined;
  readonly topLogprobs: number | undefined;
};

type NewCourse = (plan: AnswerPlan, gate: GrammarGate, generated: Token[]) => AnswerCourse;

/** Validates and tokenizes a request. Throws `EngineError` for every error detectable before generation. */
export async function prepareGeneration(
  parts: EngineParts,
  request: GenerateRequest,
  order: WorkOrder,
): Promise<PreparedGeneration> {
  const { runtime, profile } = parts;
  const continued = continuedAnswer(request, parts.revision);
  const plan = planAnswer(request, profile);
  const generated: Token[] = [];
  const topLogprobs = wantedLogprobs(request.sampling);
  const endsRepetition = mayEndRepetition(parts, plan);
  const preferred = endsRepetition ? () => course.preferred : undefined;
  const sampling = samplingOf(parts, plan, request.sampling, generated, preferred);
  const marks = prefixMarks(request);
  const counts = marks.map(({ messages }) => messages);
  const prompt = await parts.prompts.encode({ ...plan.conversation, counts }, order);
  const limit = limitOutput(request, prompt.tokens.length, runtime.contextWindow);
  const given = givenTokens(parts, continued, limit);
  const isolation = JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]);
  const gate = await newGate(parts, plan, prompt, { ...order, isolation });
  const newCourse: NewCourse = (use, courseGate, tokens) =>
    new AnswerCourse({
      ...limit,
      answer: newAnswer(parts, use, prompt, continued),
      gate: courseGate,
      generated: tokens,
      repetition: endsRepetition ? new RepetitionEnd(parts.vocabulary.jsonEnds) : undefined,
      reasoningEnd: reasoningEnd(parts),
      given,
    });
  const course = newCourse(plan, gate, generated);
  const turn = () => parts.prompts.turn(order);
  const trial = () => newCourse(planAnswer(request, profile), new GrammarGate(undefined, parts.grammarStates), []);
  const ready = topLogprobs === undefined ? given.length : await tokensBehindHeldText(trial, given.length, turn);
  const replayed = await takeGivenTokens(course, ready, turn);
  return {
    demand: {
      prompt: generated.length === 0 ? prompt.tokens : [...prompt.tokens, ...generated],
      isolation,
      affinityKey: request.cache?.affinityKey ?? "",
      line: lineOf(request.model, marks, prompt),
    },
    inputTokens: prompt.tokens.length,
    keepMs: keepMs(request),
    markedTokens: prompt.markedTokens,
    course,
    replayed,
    sampling: usedSampling(sampling),
    evaluateOptions: {
      ...sampling,
      // A token that is sampled at a given token's position is discarded, and must not advance the grammar.
      grammarEvaluationState: () => (course.given === undefined ? gate.state() : gate.copy()),
    },
    seed: request.sampling?.seed !== undefined && isDrawn(sampling) ? sampling.seed : undefined,
    topLogprobs,
  };
}

function lineOf(model: string, marks: readonly PrefixMark[], { places }: Prompt): SlotLine | undefined {
  if (marks.length === 0) return undefined;
  return { model, places: marks.map(({ digest }, index) => ({ digest, tokens: places[index] ?? 0 })) };
}

/** Throws `EngineError` INVALID_REQUEST for too many tokens, unknown ones, or one that would have ended the answer. */
function givenTokens(
  { runtime, vocabulary }: EngineParts,
  continued: Continuation | undefined,
  { maxOutputTokens }: OutputLimit,
): readonly Token[] {
  const tokens = (continued?.tokens ?? []) as readonly Token[];
  if (tokens.length > maxOutputTokens) throw notOfThisAnswer();
  if (tokens.some((token) => token >= vocabulary.size || runtime.model.isEogToken(token))) throw notOfThisAnswer();
  return tokens;
}

function reasoningEnd({ runtime, markers: { reasoning } }: EngineParts): readonly Token[] {
  if (!reasoning) return [];
  return runtime.model.tokenize(reasoning.beforeClose + reasoning.close + reasoning.afterClose, true);
}

function samplingOf(
  { runtime, vocabulary, markers, markTokens, samplingDefaults }: EngineParts,
  { conversation, callable, fixed }: AnswerPlan,
  sampling: Sampling | undefined,
  generated: readonly Token[],
  preferred: (() => readonly Token[]) | undefined,
): SamplingOptions {
  const callMark = openingToken(markers, vocabulary);
  // A model that sees tools would call them even if the request forbids calls.
  const mustNotCall = conversation.tools.length > 0 && callable.length === 0;
  const callMarks = mustNotCall && callMark !== undefined ? [callMark] : [];
  // A grammar treats their spelling as text, but detokenizing drops it.
  const hidden = needsGrammar(fixed) ? vocabulary.hiddenTokens.filter((token) => !markTokens.has(token)) : [];
  return toSamplingOptions({
    sampling,
    defaults: samplingDefaults,
    vocabularySize: vocabulary.size,
    generated,
    randomSeed: () => randomInt(2 ** 32 - 1),
    newBias: () => runtime.library.TokenBias.for(runtime.model),
    banned: [...callMarks, ...hidden],
    preferred,
  });
}

function newAnswer(parts: EngineParts, plan: AnswerPlan, prompt: Prompt, continued: Continuation | undefined): Answer {
  const { markers, texts, work } = parts;
  const { callable, maxCalls, stop, newCallId, json, reasoningBudget } = plan;
  const parser = new OutputParser({
    markers,
    startsInReasoning: prompt.startsInReasoning,
    toolNames: callable.map(({ name }) => name),
    argumentTypes: argumentTypes(callable),
    maxToolCalls: maxCalls,
    stop,
    newCallId,
    callIds: continued?.callIds ?? [],
    onFault: (thrown) => work.parseFailed(thrown),
  });
  const characters = new Utf8Holder<Token>((ids, before) => texts.of(ids, before), prompt.tokens);
  return new Answer({ parser, characters, json, followsCalls: mayEndRepetition(parts, plan), reasoningBudget });
}

/** Returns whether repetition is ended: in text that a grammar constrains to JSON, and in calls with JSON arguments. */
function mayEndRepetition({ endRepetition, markers }: EngineParts, { fixed, callable, json }: AnswerPlan): boolean {
  if (!endRepetition) return false;
  const { toolCall } = markers;
  if (json !== undefined || !needsGrammar(fixed) || callable.length === 0) return json !== undefined;
  const markup = toolCall && formOf(toolCall).markup(toolCall);
  return markup !== undefined && markup.tags === undefined;
}

async function newGate(
  { markers, grammars, grammarStates, undeclared }: EngineParts,
  { conversation, fixed, mustCall, json }: AnswerPlan,
  prompt: Prompt,
  order: GrammarOrder,
): Promise<GrammarGate> {
  if (mustCall && !markers.toolCall) {
    throw new EngineError("UNSUPPORTED_FEATURE", "tool_choice: this model calls no tools.");
  }
  const reasoning = prompt.startsInReasoning ? "opened" : conversation.reasoning ? "may-open" : "none";
  const grammar = await grammars.get({ ...fixed, markers, reasoning, undeclared }, order);
  if ((mustCall || json !== undefined) && prompt.continuesText) {
    throw new EngineError("UNSUPPORTED_FEATURE", "messages: an answer of a fixed form cannot be begun by the caller.");
  }
  return new GrammarGate(grammar, grammarStates);
}

function openingToken({ toolCall }: OutputMarkers, vocabulary: Vocabulary): Token | undefined {
  const open = toolCall && formOf(toolCall).markup(toolCall)?.open;
  return open === undefined || open === "" ? undefined : vocabulary.markerToken(open);
}
