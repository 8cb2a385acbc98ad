import { randomInt } from "node:crypto";
import type { SequenceEvaluateOptions, Token } from "node-llama-cpp";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type {
  Continuation,
  Event,
  GenerateRequest,
  Sampling,
  TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CallerWork } from "../../../caller-work/caller-work.ts";
import { needsGrammar } from "../../../caller-work/grammar-input.ts";
import { keepMs } from "../../../conversation/cache-breakpoints.ts";
import { EngineError, notOfThisAnswer } from "../../../errors.ts";
import type { UndeclaredMembers } from "../../../grammar/schema/schema-alternatives.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { type PrefixMark, prefixMarks } from "../../../prefixes/prefix-marks.ts";
import type { SlotLine } from "../../../prefixes/slot-prefixes.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { type AnswerPlan, planAnswer } from "../../answer-plan.ts";
import type { GrammarCache, GrammarOrder } from "../../grammar-cache.ts";
import { answeredPrompt, continuedAnswer, limitOutput, type OutputLimit } from "../../request-plan.ts";
import { joinedDelta } from "../../stream-events.ts";
import { TokenAnswer } from "../../token-answer.ts";
import { newTokenBias } from "../runtime/batch-decoder.ts";
import type { LlamaRuntime } from "../runtime/llama-runtime.ts";
import type { PrefillTurns } from "../slots/prefill-turns.ts";
import type { Queue } from "../slots/queue.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { Demand, Slot, Slots } from "../slots/slots.ts";
import type { Steps } from "../slots/steps.ts";
import type { Prompt, PromptEncoder } from "../tokens/prompt-encoder.ts";
import { type TokenTexts, Utf8Holder, type Vocabulary } from "../tokens/vocabulary.ts";
import { Answer, type AnswerStep } from "./answer.ts";
import { AnswerGrammar, type CompiledGrammar, type GrammarStates } from "./answer-grammar.ts";
import {
  isDrawn,
  type SamplingDefaults,
  type SamplingOptions,
  toSamplingOptions,
  usedSampling,
  wantedLogprobs,
} from "./sampling.ts";

export type Waiting = {
  readonly demand: Demand;
  readonly uncachedTokens: number;
};

export type EngineParts = {
  readonly nodeId: string;
  readonly revision: string;
  /** The part of the digests of prompts that is the model's. */
  readonly basis: string;
  readonly runtime: LlamaRuntime;
  readonly vocabulary: Vocabulary;
  readonly profile: ModelProfile;
  readonly markers: OutputMarkers;
  readonly markTokens: ReadonlySet<Token>;
  readonly texts: TokenTexts;
  readonly prompts: PromptEncoder;
  readonly work: Pick<CallerWork, "moves" | "parseFailed">;
  readonly grammars: GrammarCache<CompiledGrammar>;
  readonly undeclared: UndeclaredMembers;
  readonly grammarStates: GrammarStates;
  readonly samplingDefaults: SamplingDefaults;
  readonly slots: Slots;
  readonly leases: Set<SlotLease>;
  readonly queue: Queue<Waiting, Slot>;
  readonly steps: Steps;
  readonly turns: PrefillTurns;
  readonly clock: Clock;
};

/** The most tokens per slice: a few milliseconds of work. */
const SLICE_TOKENS = 128;
/** The length of a delta, in UTF-16 units, at which no further one is joined to it. */
const LONG_DELTA_UNITS = 4096;

/** Takes `count` given tokens, joins their deltas, and awaits `nextSlice` before each slice. Throws as `takeGiven` does. */
async function takeGivenTokens(answer: Answer, count: number, nextSlice: () => Promise<void>): Promise<AnswerStep> {
  const events: Event[] = [];
  const tokens: Token[] = [];
  let sliceEnd = 0;
  while (tokens.length < count) {
    if (tokens.length >= sliceEnd) {
      await nextSlice();
      sliceEnd = tokens.length + SLICE_TOKENS;
    }
    const step = answer.takeGiven();
    for (const token of step.tokens) tokens.push(token);
    for (const event of step.events) append(events, event);
  }
  return { events, tokens };
}

/** Resolves to the number of given tokens whose text was already sent; the others are sent with log probabilities. */
async function tokensBehindHeldText(
  trial: () => Answer,
  count: number,
  nextSlice: () => Promise<void>,
): Promise<number> {
  if (count === 0) return 0;
  const answer = trial();
  const ends = new Map<TokenLogprob, number>();
  let known = 0;
  let inCall = false;
  for (let steps = 0; answer.outputTokens < count; steps += 1) {
    if (steps % SLICE_TOKENS === 0) await nextSlice();
    const mark: TokenLogprob = { token: "", tokenBytes: Buffer.alloc(0), logprob: 0, alternatives: [] };
    const before = answer.outputTokens;
    const { events } = answer.takeGiven(mark);
    ends.set(mark, answer.outputTokens);
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") inCall = kind.value.block?.$case === "toolCall";
      // Arguments have no log probabilities, and all text before them has been sent.
      if (inCall) known = Math.max(known, before);
      const logprobs = kind?.$case === "blockDelta" ? kind.value.logprobs : [];
      for (const one of logprobs) {
        const end = ends.get(one) ?? 0;
        // The caller has not received a step that inserted more tokens than were given.
        if (end <= count) known = Math.max(known, end);
      }
    }
  }
  return known;
}

function append(events: Event[], event: Event): void {
  const last = events.at(-1);
  const isLong = last?.kind?.$case === "blockDelta" && last.kind.value.text.length >= LONG_DELTA_UNITS;
  const joined = last && !isLong ? joinedDelta(last, event) : undefined;
  if (joined) events[events.length - 1] = joined;
  else events.push(event);
}

export type PreparedGeneration = {
  readonly demand: Demand;
  readonly inputTokens: number;
  readonly promptDigest: string | undefined;
  readonly keepMs: number;
  readonly markedTokens: number;
  readonly answer: Answer;
  readonly replayed: AnswerStep;
  readonly sampling: Sampling;
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** The caller's seed, from 0 to 2^32 - 2; undefined if sampling does not depend on it. */
  readonly seed: number | undefined;
  readonly topLogprobs: number | undefined;
};

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
  const sampling = samplingOf(parts, plan, request.sampling, generated);
  const marks = prefixMarks(request);
  const counts = marks.map(({ messages }) => messages);
  const isolation = JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]);
  const salt = request.cache?.isolationSalt ?? "";
  const prompt = await parts.prompts.encode({ ...plan.conversation, counts }, { ...order, salt });
  const promptDigest = answeredPrompt(request, parts.basis, prompt.tokens);
  const limit = limitOutput(request, prompt.tokens.length, runtime.contextWindow);
  const given = givenTokens(parts, continued, limit);
  const grammar = await newAnswerGrammar(parts, plan, prompt, { ...order, isolation });
  const basis = { prompt, limit, given, callIds: continued?.callIds ?? [] };
  const answer = newAnswer(parts, plan, basis, grammar, generated);
  const nextSlice = () => parts.prompts.nextSlice(order);
  const trial = () =>
    newAnswer(parts, planAnswer(request, profile), basis, new AnswerGrammar(undefined, parts.grammarStates), []);
  const ready = topLogprobs === undefined ? given.length : await tokensBehindHeldText(trial, given.length, nextSlice);
  const replayed = await takeGivenTokens(answer, ready, nextSlice);
  return {
    demand: {
      prompt: generated.length === 0 ? prompt.tokens : [...prompt.tokens, ...generated],
      isolation,
      affinityKey: request.cache?.affinityKey ?? "",
      line: lineOf(request.model, marks, prompt),
    },
    inputTokens: prompt.tokens.length,
    promptDigest,
    keepMs: keepMs(request),
    markedTokens: prompt.markedTokens,
    answer,
    replayed,
    sampling: usedSampling(sampling),
    evaluateOptions: {
      ...sampling,
      // A token that is sampled at a given token's position is discarded, and must not advance the grammar.
      grammarEvaluationState: () => (answer.given === undefined ? grammar.state() : grammar.copy()),
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
  { fixed }: AnswerPlan,
  sampling: Sampling | undefined,
  generated: readonly Token[],
): SamplingOptions {
  // A grammar treats their spelling as text, but detokenizing drops it.
  const isHeld = needsGrammar({ ...fixed, markers });
  const banned = isHeld ? vocabulary.hiddenTokens.filter((token) => !markTokens.has(token)) : [];
  return toSamplingOptions({
    sampling,
    defaults: samplingDefaults,
    vocabularySize: vocabulary.size,
    generated,
    randomSeed: () => randomInt(2 ** 32 - 1),
    newBias: (biases) => newTokenBias(runtime.model, biases),
    banned,
    // Where a grammar allows nothing but the end, no token would be left.
    ends: isHeld ? [] : vocabulary.endTokens,
  });
}

type AnswerBasis = {
  readonly prompt: Prompt;
  readonly limit: OutputLimit;
  readonly given: readonly Token[];
  readonly callIds: readonly string[];
};

function newAnswer(
  parts: EngineParts,
  plan: AnswerPlan,
  { prompt, limit, given, callIds }: AnswerBasis,
  grammar: AnswerGrammar,
  generated: Token[],
): Answer {
  const { markers, texts, work } = parts;
  const { startsInReasoning } = prompt;
  const onFault = (thrown: unknown) => work.parseFailed(thrown);
  const answer = new TokenAnswer({ plan, markers, startsInReasoning, callIds, onFault });
  const characters = new Utf8Holder<Token>((ids, before) => texts.of(ids, before), prompt.tokens);
  return new Answer({ ...limit, answer, characters, reasoningEnd: reasoningEnd(parts), grammar, generated, given });
}

async function newAnswerGrammar(
  { markers, grammars, grammarStates, undeclared }: EngineParts,
  { conversation, fixed, mustCall, json }: AnswerPlan,
  prompt: Prompt,
  order: GrammarOrder,
): Promise<AnswerGrammar> {
  const reasoning = prompt.startsInReasoning ? "opened" : conversation.reasoning ? "may-open" : "none";
  const grammar = await grammars.get({ ...fixed, markers, reasoning, undeclared }, order);
  if ((mustCall || json !== undefined) && prompt.continuesText) {
    throw new EngineError("UNSUPPORTED_FEATURE", "messages: an answer of a fixed form cannot be begun by the caller.");
  }
  return new AnswerGrammar(grammar, grammarStates);
}
