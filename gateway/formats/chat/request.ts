import {
  type OutputConstraint,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
  type Sampling,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { CatalogModel } from "../../catalog.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue, tooMany, unsupportedParameter, unsupportedValue, wrongType } from "../field-error.ts";
import {
  cacheBreakpoint,
  cacheTtl,
  effort,
  FOR_LOAD_TESTS,
  MAX_LOGIT_BIAS,
  promptCacheTtl,
  reasoningBudget,
  reasoningOfEffort,
  stopStrings,
} from "../fields.ts";
import type { CanonicalRequest, EveryField, Format, PrepareContext } from "../format.ts";
import { catalogModel, refuseUntaken, requestBody } from "../request-body.ts";
import { CHOICE_MODES, isRepeated, schemaText, toolOf } from "../tools.ts";
import { readMessages } from "./messages.ts";
import { chatReply, type ReplyOptions } from "./reply.ts";
import { CHAT_UNTAKEN, type ChatBody, chatRequest, chatToolChoice, ONLY_FUNCTIONS } from "./schema.ts";
import { ChatEncoder } from "./stream.ts";

/**
 * Format A, `POST /v1/chat/completions`. Faults are reported in this order: model, messages, plain fields, tools,
 * content of the messages.
 */
export const chat: Format<ReplyOptions> = {
  name: "chat",
  fields: {
    prompt: ["messages"],
    instructions: ["messages"],
    outputSchema: ["response_format"],
    toolSchema: ["function", "parameters"],
  },
  repeatsCutStreams: true,
  prepare(input, context) {
    const raw = requestBody(input);
    const model = catalogModel(raw.model, context);
    const body = checked(chatRequest, raw);
    refuseUntaken(raw, CHAT_UNTAKEN);
    if ((body.n ?? 1) > 1) throw unsupportedValue(["n"], "Only one choice per request is supported.");
    if (body.modalities?.some((modality) => modality !== "text"))
      throw unsupportedValue(["modalities"], "Only 'text' is supported.");
    const options = {
      model: model.id,
      logprobs: body.logprobs ?? false,
      includeUsage: body.stream_options?.include_usage ?? false,
      echoServiceTier: (body.service_tier ?? undefined) !== undefined,
    };
    return { model: model.id, stream: body.stream ?? false, options, ...readRequest(body, model, context) };
  },
  encoder: (head, options) => new ChatEncoder(head, options),
  reply: chatReply,
};

type ReadRequest = { readonly request: CanonicalRequest; readonly toolPaths: readonly FieldPath[] };

function readRequest(body: ChatBody, model: CatalogModel, context: PrepareContext): ReadRequest {
  const options = body.prompt_cache_options ?? undefined;
  const limit = options?.prewarm ? 0 : (body.max_completion_tokens ?? body.max_tokens ?? undefined);
  const maxOutputTokens = limit === undefined ? undefined : Math.min(limit, model.contextWindow);
  const sampling = {
    ...readSampling(body),
    minOutputTokens: readLeast(body, maxOutputTokens ?? model.contextWindow, context),
  };
  const reasoning = readReasoning(body, maxOutputTokens);
  const { tools, toolPaths } = readTools(body.tools);
  const request = {
    model: model.id,
    tools,
    toolChoice: readToolChoice(body.tool_choice, tools, body.parallel_tool_calls ?? true),
    outputConstraint: readResponseFormat(body.response_format),
    sampling,
    reasoning,
    // The caller's own key: the route, which has the tenant, makes a digest of it.
    cache: {
      affinityKey: body.prompt_cache_key ?? "",
      isolationSalt: "",
      ttl: body.cache_ttl ? cacheTtl(body.cache_ttl) : promptCacheTtl(options, body.prompt_cache_retention),
    },
    maxOutputTokens,
    messages: readMessages(body.messages, {
      acceptsImages: context.acceptsImages(model.id),
      unreadable: context.settings.unreadableContent,
    }),
  };
  return { request, toolPaths };
}

const MAX_TOKEN_ID = 2 ** 32 - 1;

/** Seeds are passed on as integers that a double holds exactly. */
const SEEDS = 2 ** 53;

/** Throws `ApiError` unless the key is for load tests: answers that cannot end serve nothing else. */
function readLeast(
  { min_tokens: least, ignore_eos: endless }: ChatBody,
  most: number,
  { loadTests }: PrepareContext,
): number | undefined {
  if (!endless && !least) return undefined;
  if (!loadTests) throw unsupportedParameter([endless ? "ignore_eos" : "min_tokens"], FOR_LOAD_TESTS);
  return endless ? most : Math.min(least ?? 0, most);
}

function readSampling(body: ChatBody): Omit<EveryField<Sampling>, "minOutputTokens"> {
  return {
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    topK: body.top_k === undefined || body.top_k === null ? undefined : Math.max(0, body.top_k),
    minP: body.min_p ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    repetitionPenalty: body.repetition_penalty ?? undefined,
    seed: readSeed(body.seed),
    stop: stopStrings(body.stop),
    topLogprobs: body.logprobs ? (body.top_logprobs ?? 0) : undefined,
    logitBias: readLogitBias(body.logit_bias),
  };
}

/** Reads a seed. Any integer is one; negative and large ones are folded into the range, always in the same way. */
function readSeed(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value)) throw wrongType(["seed"], "an integer", value);
  const rest = value % SEEDS;
  return rest < 0 ? rest + SEEDS : Math.abs(rest);
}

/** Reads a `logit_bias`. Paths of faults stop at the field, as its keys are the caller's. */
function readLogitBias(value: unknown): { [token: number]: number } {
  const path = ["logit_bias"];
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw wrongType(path, "an object", value);
  const entries = Object.entries(value);
  if (entries.length > MAX_LOGIT_BIAS) throw tooMany(path, MAX_LOGIT_BIAS);
  return Object.fromEntries(
    entries.map(([key, bias]) => {
      if (!/^[0-9]{1,10}$/.test(key) || Number(key) > MAX_TOKEN_ID)
        throw invalidValue(path, `expected keys that are token ids: integers from 0 to ${MAX_TOKEN_ID}.`);
      if (typeof bias !== "number" || !(bias >= -100 && bias <= 100))
        throw invalidValue(path, "expected values that are numbers from -100 to 100.");
      return [Number(key), bias];
    }),
  );
}

function readResponseFormat(format: ChatBody["response_format"]): OutputConstraint | undefined {
  switch (format?.type) {
    case "json_object":
      return { kind: { $case: "jsonObject", value: {} } };
    case "json_schema": {
      const { name, schema, strict } = format.json_schema;
      const path = ["response_format", "json_schema", "schema"];
      const schemaJson = schemaText(schema, path, "response", strict ?? false);
      return { kind: { $case: "jsonSchema", value: { name, schemaJson, strict: strict ?? false } } };
    }
    default:
      return undefined;
  }
}

const { UNSPECIFIED } = ReasoningEffort;

const OFF: Reasoning = { mode: ReasoningMode.DISABLED, effort: UNSPECIFIED };

/**
 * Reads `reasoning.effort`, else `reasoning_effort`, else the switches of other stacks; switches of another form are
 * ignored, as no specification defines them. `maxOutputTokens` bounds the budget, so that some answer stays visible.
 */
function readReasoning(body: ChatBody, maxOutputTokens: number | undefined): Reasoning | undefined {
  const { reasoning, think } = body;
  const named = reasoning?.effort ?? checked(NULLISH_EFFORT, body.reasoning_effort, ["reasoning_effort"]);
  const word = named ?? effort.safeParse(think).data;
  if (reasoning?.enabled === false) return OFF;
  const thinking = isJsonObject(body.thinking) ? body.thinking : {};
  const budget = [reasoning?.max_tokens, thinking.budget_tokens, body.thinking_token_budget].find(isBudget);
  const budgetTokens = budget === undefined ? undefined : reasoningBudget(budget, maxOutputTokens);
  if (word) return word === "none" ? OFF : { ...reasoningOfEffort(word), budgetTokens };
  const on = switchOf(body) ?? (isBudget(reasoning?.max_tokens) || undefined);
  if (on === false) return OFF;
  if (on) return { mode: ReasoningMode.ENABLED, effort: UNSPECIFIED, budgetTokens };
  return isBudget(body.thinking_token_budget)
    ? { mode: ReasoningMode.UNSPECIFIED, effort: UNSPECIFIED, budgetTokens }
    : undefined;
}

const NULLISH_EFFORT = effort.nullish();

/** Returns the first switch that is set; the more specific one comes first. */
function switchOf(body: ChatBody): boolean | undefined {
  const template = isJsonObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
  const switches = [
    body.reasoning?.enabled,
    thinkingSwitch(body.thinking),
    body.think,
    body.enable_thinking,
    template.enable_thinking,
    template.thinking,
    body.include_reasoning,
  ];
  return switches.find((value) => typeof value === "boolean");
}

function thinkingSwitch(thinking: unknown): boolean | undefined {
  if (typeof thinking === "boolean") return thinking;
  if (!isJsonObject(thinking)) return undefined;
  if (thinking.type === "disabled") return false;
  return thinking.type === "enabled" || thinking.type === "adaptive" ? true : undefined;
}

function isBudget(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1;
}

/** Reads the tools, each of which may be declared more than once. */
function readTools(list: ChatBody["tools"]): {
  readonly tools: readonly Tool[];
  readonly toolPaths: readonly FieldPath[];
} {
  const tools = new Map<string, Tool>();
  const toolPaths: FieldPath[] = [];
  for (const [index, { function: source, cache_control }] of (list ?? []).entries()) {
    const { parameters, ...definition } = source;
    const path = ["tools", index];
    const breakpoint = cacheBreakpoint(cache_control) ?? cacheBreakpoint(definition.cache_control);
    const tool = toolOf(definition, parameters, [...path, "function", "parameters"], breakpoint);
    const known = tools.get(tool.name);
    if (known && isRepeated(known, tool, [...path, "function"])) continue;
    tools.set(tool.name, tool);
    toolPaths.push(path);
  }
  return { tools: [...tools.values()], toolPaths };
}

const PATH = ["tool_choice"];

/**
 * Reads the `tool_choice` of a body; absent, it is `auto`. Undefined where there are no tools to choose from. Throws
 * `ApiError` when the choice needs a tool that `tools` does not hold.
 */
function readToolChoice(value: unknown, tools: readonly Tool[], parallel: boolean): ToolChoice | undefined {
  const choice = { disableParallelCalls: !parallel, ...readMode(value) };
  if (tools.length === 0) {
    if (choice.mode === ToolChoiceMode.AUTO && choice.allowedNames.length === 0) return undefined;
    if (choice.mode === ToolChoiceMode.NONE) return undefined;
    throw invalidValue(PATH, "'tool_choice' is only allowed when 'tools' are specified.");
  }
  const known = new Set(tools.map((tool) => tool.name));
  const wanted = choice.mode === ToolChoiceMode.NAMED ? [choice.name] : choice.allowedNames;
  if (!wanted.every((name) => known.has(name)))
    throw invalidValue(PATH, "the named function is not one of those in 'tools'.");
  return choice;
}

function readMode(value: unknown): Pick<ToolChoice, "mode" | "name" | "allowedNames"> {
  if (isJsonObject(value) && value.type === "custom") throw unsupportedValue([...PATH, "type"], ONLY_FUNCTIONS);
  const choice = checked(chatToolChoice, value, PATH) ?? "auto";
  if (typeof choice === "string") return { mode: CHOICE_MODES[choice], name: "", allowedNames: [] };
  if (choice.type === "function") return { mode: ToolChoiceMode.NAMED, name: choice.function.name, allowedNames: [] };
  const { mode, tools } = choice.allowed_tools;
  return { mode: CHOICE_MODES[mode], name: "", allowedNames: tools.map((tool) => tool.function.name) };
}
