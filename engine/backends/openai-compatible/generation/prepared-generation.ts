import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { Event, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError, notOfThisAnswer } from "../../../errors.ts";
import { type AnswerPlan, planAnswer } from "../../answer-plan.ts";
import { answeredPrompt, continuedAnswer, limitOutput, type OutputLimit } from "../../request-plan.ts";
import { TokenAnswer } from "../../token-answer.ts";
import type { Ask, RenderedPrompt, TokenSampling } from "../engines/engine-dialect.ts";
import { toChatTools } from "../request/chat-messages.ts";
import { cacheSalt, toChatPrompt, toSampling } from "../request/request.ts";
import { asking, type GenerationParts } from "./generation-parts.ts";

/** The tokens at the end of a prompt that show whether the template has opened the reasoning. */
const TAIL_TOKENS = 16;
const INCOMPLETE = "\uFFFD";
export const CHARACTER_TOKENS = 4;
/** The window of an engine that reports none, in tokens. */
const ANY_WINDOW = 2 ** 31 - 1;

export type PreparedGeneration = {
  readonly prompt: RenderedPrompt;
  readonly promptDigest: string | undefined;
  readonly salt: string;
  readonly limit: OutputLimit;
  readonly sampling: TokenSampling;
  /** The grammar of the rest of the answer; undefined for free output. */
  readonly grammar: string | undefined;
  readonly behindReasoning: () => Promise<string | undefined>;
  readonly answer: TokenAnswer;
  /** Whether another node can go on with the answer: without that, its tokens are not reported. */
  readonly continues: boolean;
  /** The given tokens of a continuation, up to the last whole character, and their events; empty otherwise. */
  readonly given: readonly number[];
  readonly replayed: readonly Event[];
};

/** Validates and renders a request. Throws `EngineError` for every error that can be detected before generation. */
export async function prepareGeneration(
  parts: GenerationParts,
  request: GenerateRequest,
  order: WorkOrder & { readonly signal: AbortSignal },
): Promise<PreparedGeneration> {
  const { settings, facts, markup, http, countTimeoutMs } = parts;
  const { dialect, profile, servedModel } = settings;
  const continued = continuedAnswer(request, parts.revision);
  const plan = planAnswer(request, profile);
  const tenantSalt = cacheSalt(request);
  const salt = parts.handOvers?.saltOf(tenantSalt) ?? tenantSalt;
  const sampling = toSampling(request.sampling, settings);
  if ((plan.mustCall || plan.json !== undefined) && request.messages.at(-1)?.role === Role.ASSISTANT)
    throw new EngineError("UNSUPPORTED_FEATURE", "messages: an answer of a fixed form cannot be begun by the caller.");
  const hindrance = hindranceOf(sampling);
  if (continued && hindrance)
    throw new EngineError("UNSUPPORTED_FEATURE", `continuation: not of an answer with a ${hindrance}.`);
  const nextSlice = () => parts.slices.nextUnlessLeft(request.tenant, order.signal);
  const ask = asking(http, countTimeoutMs, order.signal, nextSlice);
  // Their names are checked, and their schemas, by whatever the prompt is rendered.
  toChatTools(request.tools, settings.marks);
  const own = await parts.own?.render(request, request.cache?.isolationSalt ?? "", ask, order);
  const prompt = own
    ? { tokens: own.tokens, features: undefined }
    : await dialect.render(ask, toChatPrompt(request, settings));
  const promptDigest = answeredPrompt(request, parts.basis, prompt.tokens);
  const limit = limitOutput(request, prompt.tokens.length, facts.contextWindow || ANY_WINDOW);
  const opened = own?.startsInReasoning ?? (await startsInReasoning(parts, ask, prompt.tokens));
  const { thinking } = profile;
  const answer = new TokenAnswer({
    plan,
    markers: markup.markers,
    startsInReasoning: opened,
    callIds: continued?.callIds ?? [],
    areGeneric: profile.toolsAsText,
    onFault: parts.onFault,
    mending: settings.marks.mending(),
    hideReasoning: thinking !== undefined && thinking.off === undefined && !plan.conversation.reasoning,
  });
  const tokens = continued?.tokens ?? [];
  if (tokens.length > limit.maxOutputTokens) throw notOfThisAnswer();
  const { given, text } = await wholeCharacters(tokens, (ids) => dialect.detokenize(ask, servedModel, ids));
  const input = { ...heldForms(parts, plan), markers: markup.markers, reader: markup.reader };
  const reasoning = opened ? "opened" : plan.conversation.reasoning ? "may-open" : "none";
  const isolation = JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]);
  const grammarOrder = { ...order, isolation };
  const grammar = await parts.grammars.get({ ...input, reasoning, behind: text }, grammarOrder);
  const replayed = given.length === 0 ? [] : answer.push(given.length, text);
  const behindReasoning = () => parts.grammars.get({ ...input, reasoning: "none" }, grammarOrder);
  return {
    ...{ prompt, promptDigest, salt, limit, sampling, grammar, behindReasoning, answer, given, replayed },
    continues: hindrance === undefined,
  };
}

/** Returns the forms that the answer is held to: not those of free calls, where the engine takes no grammar of them. */
function heldForms({ holdsForms }: GenerationParts, { fixed }: AnswerPlan): AnswerPlan["fixed"] {
  const { mustCall, constraint, tools } = fixed;
  const isHeld = holdsForms || mustCall || constraint !== undefined || tools.some(({ strict }) => strict);
  return isHeld ? fixed : { ...fixed, tools: [], mustNotCall: false };
}

/** Returns why another engine would go on with an answer in another way; undefined if it would not. */
function hindranceOf({ seed, temperature, presencePenalty }: TokenSampling): string | undefined {
  if (seed !== undefined && temperature !== 0) return "seed";
  return presencePenalty ? "presence penalty" : undefined;
}

/** Returns whether the template has opened the reasoning already, so that the output contains only its end. */
async function startsInReasoning(
  { settings: { dialect, servedModel, profile }, tails }: GenerationParts,
  ask: Ask,
  tokens: Uint32Array,
): Promise<boolean> {
  const { reasoning } = profile;
  if (!reasoning) return false;
  const tail = tokens.slice(-TAIL_TOKENS);
  const key = tail.join();
  const text = tails.get(key) ?? (await dialect.detokenize(ask, servedModel, tail));
  tails.set(key, text);
  return text.trimEnd().endsWith(reasoning.open.trim());
}

/**
 * Returns the tokens up to the last whole character, with their text: an engine that continues inside a character
 * repeats the prompt in the answer. The others come again.
 */
async function wholeCharacters(
  tokens: readonly number[],
  textOf: (tokens: readonly number[]) => Promise<string>,
): Promise<{ readonly given: readonly number[]; readonly text: string }> {
  for (let dropped = 0; dropped < Math.min(CHARACTER_TOKENS, tokens.length); dropped += 1) {
    const given = tokens.slice(0, tokens.length - dropped);
    const text = await textOf(given);
    if (!text.endsWith(INCOMPLETE)) return { given, text };
  }
  return { given: tokens, text: tokens.length === 0 ? "" : await textOf(tokens) };
}
