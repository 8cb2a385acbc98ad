import { createHash } from "node:crypto";
import type {
  CountTokensRequest,
  GenerateRequest,
  Sampling,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { withCallsAsText } from "../../../conversation/history/calls-as-text.ts";
import { withDeclaredTools } from "../../../conversation/history/declared-tools.ts";
import type { TurnRules } from "../../../conversation/history/model-history.ts";
import { type ModelProfile, textCallsOf } from "../../../profiles/profile.ts";
import { planReasoning } from "../../request-plan.ts";
import type { ChatPrompt, EngineDialect, TokenSampling } from "../engines/engine-dialect.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";
import { toChatMessages, toChatTools } from "./chat-messages.ts";

export type RequestSettings = {
  readonly dialect: EngineDialect;
  readonly servedModel: string;
  readonly profile: ModelProfile;
  readonly turns: TurnRules;
  /** The spellings of the model's special tokens, which callers must not write. */
  readonly marks: SpelledMarks;
  readonly images: boolean;
  /** Whether the engine was started with priority scheduling. */
  readonly priorities: boolean;
  /** Whether tenants may share the engine's prefix cache if it cannot isolate them. */
  readonly sharedCache: boolean;
  /** The sampling parameters of the model's own configuration, which apply where a request has none. */
  readonly defaults: Partial<TokenSampling>;
};

/** Writes a conversation for the engine's template. Throws `EngineError` for unsupported features. */
export function toChatPrompt(
  { messages, tools, reasoning }: Pick<CountTokensRequest, "messages" | "tools" | "reasoning">,
  { dialect, servedModel: model, profile, turns, marks, images }: RequestSettings,
): ChatPrompt {
  const { thinking } = profile;
  const { wanted, effort } = planReasoning(reasoning, thinking);
  const word = wanted ? effort?.reasoningEffort : undefined;
  const textCalls = textCallsOf(profile);
  const shown = toChatTools(tools, marks);
  const head = textCalls ? [] : shown;
  const said = withDeclaredTools(messages, tools);
  return {
    model,
    messages: toChatMessages(textCalls ? withCallsAsText(said, tools, textCalls, (text) => marks.broken(text)) : said, {
      turns,
      callIds: profile.callIds,
      images,
      marks,
    }),
    tools: head.length > 0 ? head : undefined,
    templateKwargs: {
      // Sent explicitly: one engine reasons where the template alone would not.
      ...(wanted ? thinking?.on : thinking?.off),
      ...(wanted ? effort?.templateKwargs : {}),
      ...(word !== undefined && !dialect.takesEffort ? { reasoning_effort: word } : {}),
    },
    reasoningEffort: dialect.takesEffort ? word : undefined,
    continues: messages.at(-1)?.role === Role.ASSISTANT,
  };
}

/** Reads the sampling parameters of a request. */
export function toSampling(
  sampling: Sampling | undefined,
  { dialect, defaults }: Pick<RequestSettings, "dialect" | "defaults">,
): TokenSampling {
  const seed = sampling?.seed;
  return {
    temperature: sampling?.temperature ?? defaults.temperature,
    topP: sampling?.topP ?? defaults.topP,
    topK: sampling?.topK ?? defaults.topK,
    minP: sampling?.minP ?? defaults.minP,
    frequencyPenalty: sampling?.frequencyPenalty ?? defaults.frequencyPenalty,
    presencePenalty: sampling?.presencePenalty ?? defaults.presencePenalty,
    repetitionPenalty: sampling?.repetitionPenalty ?? defaults.repetitionPenalty,
    seed: seed === undefined ? undefined : seed % dialect.seeds,
    topLogprobs: sampling?.topLogprobs,
    logitBias: { ...sampling?.logitBias },
    minOutputTokens: sampling?.minOutputTokens,
  };
}

/** Returns the session whose prefixes the engine should protect: one per tenant and affinity key. */
export function sessionId({ tenant, cache }: GenerateRequest): string | undefined {
  return cache?.affinityKey ? digest(tenant, cache.affinityKey) : undefined;
}

/** Returns the priority in the engine's own sign; undefined without priority scheduling, where some engines refuse one. */
export function enginePriority(
  { priority }: Pick<GenerateRequest, "priority">,
  { dialect, priorities }: Pick<RequestSettings, "dialect" | "priorities">,
): number | undefined {
  // 0 is sent, too: SGLang puts a request without a priority behind all others. JSON has no -0.
  return priorities ? dialect.prioritySign * priority + 0 : undefined;
}

/** Returns the salt that isolates a tenant's prompts in the engine's cache. */
export function cacheSalt({ tenant, cache }: GenerateRequest): string {
  return digest(tenant, cache?.isolationSalt ?? "");
}

/** Returns 43 characters of base64url: engines allow at least 128 characters, but not all characters. */
function digest(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}
