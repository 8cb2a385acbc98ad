import { createHash } from "node:crypto";
import type {
  CountTokensRequest,
  GenerateRequest,
  OutputConstraint,
  Sampling,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { TurnRules } from "../../../conversation/turn-rules.ts";
import { EngineError } from "../../../errors.ts";
import type { CompiledSchema } from "../../../grammar/validation/compiled-schemas.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { askedOutputTokens } from "../../request-plan.ts";
import type { Dialect, RequestField } from "../dialect/dialect.ts";
import { type JsonValue, rawObject } from "../http/raw-json.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";
import { type ChatRules, toChatMessages } from "./chat-messages.ts";
import { planTools, type ToolPlan, toChatTools } from "./chat-tools.ts";
import { compiledSchemas } from "./compiled-schemas.ts";
import { planThinking, type ThinkingPlan } from "./thinking.ts";

export type RequestSettings = {
  readonly dialect: Dialect;
  readonly servedModel: string;
  readonly profile: ModelProfile;
  readonly turns: TurnRules;
  /** The spellings of the model's special tokens, which callers must not write. */
  readonly marks: SpelledMarks;
  readonly images: boolean;
  /** Whether the engine was started with priority scheduling; without it, it rejects any priority. */
  readonly priorities: boolean;
  readonly thinkingBudget: boolean;
  /** Whether tenants may share the engine's prefix cache if it cannot isolate them. */
  readonly sharedCache: boolean;
  /** Whether the tokens of prompts with digests are needed. */
  readonly promptTokens: boolean;
};

/** A request in the engine's format, with the constraints on its answer. */
export type ChatRequest = {
  readonly body: Readonly<Record<string, JsonValue>>;
  /** The body of a token count of the same prompt. */
  readonly countBody: Readonly<Record<string, JsonValue>>;
  /** The salt that isolates tenants in the engine's cache. */
  readonly cacheSalt: string;
  readonly tools: ToolPlan;
  /** The schemas that the engine would compile, to be checked before the request is sent. */
  readonly compiled: readonly CompiledSchema[];
  readonly thinking: ThinkingPlan;
  /** The text with which the caller has begun the answer, if the engine repeats it; otherwise "". */
  readonly begun: string;
  /** The stop strings that the node has to match. */
  readonly nodeStops: readonly string[];
};

type Fields = Partial<Record<RequestField, JsonValue>>;

/**
 * Translates a request for an engine: only fields of its dialect are sent. `engineRequestId` is for the engine's log.
 * Throws `EngineError` for unsupported features.
 */
export function toChatRequest(
  request: GenerateRequest,
  settings: RequestSettings,
  engineRequestId: string | undefined,
): ChatRequest {
  const { dialect } = settings;
  const tools = planTools(request, dialect);
  const thinking = planThinking(settings.profile, dialect, request.reasoning);
  const stop = (request.sampling?.stop ?? []).filter((text) => text !== "");
  const cacheSalt = digest(request.tenant, request.cache?.isolationSalt ?? "");
  const fields: Fields = {
    ...promptFields(request.messages, tools, thinking, settings.marks),
    ...samplingFields(request.sampling, tools, dialect),
    maxOutputTokens: askedOutputTokens(request),
    stop: stop.length > 0 && !dialect.stopsInNode ? stop : undefined,
    parallelToolCalls: tools.maxCalls === 1 ? false : undefined,
    // A required call is a constraint of its own; one engine drops it if both are given.
    responseFormat: tools.mustCall ? undefined : responseFormat(request.outputConstraint),
    thinkingBudget: settings.thinkingBudget ? thinking.budgetTokens : undefined,
    includeReasoning: thinking.hidden ? false : undefined,
    separateReasoning: true,
    streamReasoning: true,
    reasoningFormat: "auto",
    cacheSalt,
    cachePrompt: settings.sharedCache,
    sessionId: sessionId(request),
    priority: settings.priorities && request.priority !== 0 ? dialect.prioritySign * request.priority : undefined,
    requestId: engineRequestId,
    streamOptions: dialect.fields.timingsPerToken
      ? { include_usage: true }
      : { include_usage: true, continuous_usage_stats: true },
    returnProgress: true,
    timingsPerToken: true,
    returnTokenIds: settings.promptTokens && request.prefixDigests.length > 0 ? true : undefined,
  };
  const messages = toChatMessages(request.messages, rulesOf(settings));
  const start = { model: settings.servedModel, messages };
  return {
    body: { ...start, stream: true, ...named(fields, dialect) },
    countBody: { ...start, ...named(fields, dialect, dialect.countFields) },
    cacheSalt,
    tools,
    compiled: compiledSchemas(tools, request.outputConstraint, request.tools),
    thinking,
    begun: dialect.echoesBegun ? begunText(request.messages, messages) : "",
    nodeStops: dialect.stopsInNode ? stop : [],
  };
}

/**
 * Returns the session whose prefixes the engine should protect: one per tenant and affinity key; undefined without an
 * affinity key.
 */
export function sessionId({ tenant, cache }: GenerateRequest): string | undefined {
  return cache?.affinityKey ? digest(tenant, cache.affinityKey) : undefined;
}

/** Writes the body of a token count. Throws `EngineError` for unsupported features. */
export function toCountBody(
  request: Omit<CountTokensRequest, "tenant">,
  settings: RequestSettings,
): Record<string, JsonValue> {
  const { dialect, servedModel: model } = settings;
  const tools = planTools(request, dialect);
  const thinking = planThinking(settings.profile, dialect, request.reasoning);
  const fields = promptFields(request.messages, tools, thinking, settings.marks);
  const messages = toChatMessages(request.messages, rulesOf(settings));
  return { model, messages, ...named(fields, dialect, dialect.countFields) };
}

/** Returns the text with which the caller has begun the answer, as it is sent to the engine; "" for none. */
function begunText(messages: readonly Message[], written: readonly JsonValue[]): string {
  const last = written.at(-1);
  if (messages.at(-1)?.role !== Role.ASSISTANT || typeof last !== "object" || last === null) return "";
  return "content" in last && typeof last.content === "string" ? last.content : "";
}

function promptFields(
  messages: readonly Message[],
  tools: ToolPlan,
  thinking: ThinkingPlan,
  marks: SpelledMarks,
): Fields {
  const continues = messages.at(-1)?.role === Role.ASSISTANT;
  return {
    tools: tools.shown.length > 0 ? toChatTools(tools.shown, marks) : undefined,
    toolChoice: tools.shown.length > 0 ? tools.choice : undefined,
    templateKwargs: Object.keys(thinking.templateKwargs).length > 0 ? thinking.templateKwargs : undefined,
    reasoningEffort: thinking.reasoningEffort,
    continueFinalMessage: continues ? true : undefined,
    addGenerationPrompt: continues ? false : undefined,
  };
}

function samplingFields(sampling: Sampling | undefined, tools: ToolPlan, dialect: Dialect): Fields {
  if (!sampling) return {};
  const { topLogprobs, logitBias, seed, topK } = sampling;
  if (topLogprobs !== undefined && tools.callable.size > 0 && !dialect.logprobsBesideTools) {
    throw new EngineError(
      "UNSUPPORTED_FEATURE",
      "sampling.top_logprobs: this engine gives none where it may call tools.",
    );
  }
  return {
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: topK === 0 ? dialect.topKOff : topK,
    minP: sampling.minP,
    frequencyPenalty: sampling.frequencyPenalty,
    presencePenalty: sampling.presencePenalty,
    repetitionPenalty: sampling.repetitionPenalty,
    seed: seed === undefined ? undefined : seed % dialect.seeds,
    logprobs: topLogprobs === undefined ? undefined : true,
    topLogprobs,
    logitBias: Object.keys(logitBias).length > 0 ? logitBias : undefined,
  };
}

function responseFormat(constraint: OutputConstraint | undefined): JsonValue {
  const kind = constraint?.kind;
  if (kind === undefined) return undefined;
  if (kind.$case === "jsonObject") return { type: "json_object" };
  const { name, schemaJson, strict } = kind.value;
  const schema = rawObject(schemaJson);
  if (!schema) {
    throw new EngineError("INVALID_SCHEMA", "output_constraint.json_schema.schema_json: is not a JSON object.");
  }
  return {
    type: "json_schema",
    json_schema: { name: name === "" ? "answer" : name, schema, strict: strict || undefined },
  };
}

/** Returns 43 characters of base64url: engines allow at least 128 characters, but not all characters. */
function digest(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}

function named(fields: Fields, dialect: Dialect, only?: readonly RequestField[]): Record<string, JsonValue> {
  const body: Record<string, JsonValue> = {};
  for (const [field, name] of Object.entries(dialect.fields)) {
    const key = field as RequestField;
    if (fields[key] === undefined || (only && !only.includes(key))) continue;
    body[name] = fields[key];
  }
  return body;
}

function rulesOf({ profile, turns, images, marks }: RequestSettings): ChatRules {
  return { turns, callIds: profile.callIds, images, marks };
}
