import type { CacheHints } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CatalogModel } from "../../catalog.ts";
import type { JsonObject } from "../../json/json-text.ts";
import { CACHE_TTLS, cacheTtl, MAX_CACHE_KEY_LENGTH } from "../cache-control.ts";
import { fromZod, oneOf, tooLong, unsupportedValue } from "../field-error.ts";
import type { CanonicalRequest, Format, FormatSettings, PrepareContext } from "../format.ts";
import { catalogModel, requestBody } from "../request-body.ts";
import { refuseUntaken } from "../untaken-field.ts";
import { messageList, readMessages } from "./messages.ts";
import { readReasoning } from "./reasoning.ts";
import { chatReply, type ReplyOptions } from "./reply.ts";
import { readResponseFormat } from "./response-format.ts";
import { readSampling } from "./sampling.ts";
import { type ChatScalars, chatScalars } from "./schema.ts";
import { ChatEncoder } from "./stream.ts";
import { readToolChoice, readTools } from "./tool-fields.ts";
import { CHAT_UNTAKEN } from "./untaken-fields.ts";

/**
 * Format A, `POST /v1/chat/completions`. Faults are reported in the order in which they help: model, messages, plain
 * fields, tools, and what stands inside the messages last.
 */
export const chat: Format<ReplyOptions> = {
  name: "chat",
  fields: {
    prompt: ["messages"],
    instructions: ["messages"],
    outputSchema: ["response_format"],
    toolSchema: ["function", "parameters"],
  },
  prepare(input, context) {
    const body = requestBody(input);
    const model = catalogModel(body.model, context);
    const list = messageList(body.messages);
    const scalars = readScalars(body);
    refuseUnsupported(body, scalars);
    const request = canonicalRequest(body, scalars, model, list, context);
    return {
      model: model.id,
      stream: scalars.stream ?? false,
      request,
      options: replyOptions(body, scalars, model, context.settings),
    };
  },
  encoder: (head, options) => new ChatEncoder(head, options),
  reply: chatReply,
};

function readScalars(body: JsonObject): ChatScalars {
  const result = chatScalars.safeParse(body);
  if (!result.success) throw fromZod(result.error, body);
  return result.data;
}

function refuseUnsupported(body: JsonObject, scalars: ChatScalars): void {
  refuseUntaken(body, CHAT_UNTAKEN);
  if ((scalars.n ?? 1) > 1) throw unsupportedValue(["n"], "Only one choice per request is supported.");
  if (scalars.modalities?.some((modality) => modality !== "text"))
    throw unsupportedValue(["modalities"], "Only 'text' is supported.");
}

function canonicalRequest(
  body: JsonObject,
  scalars: ChatScalars,
  model: CatalogModel,
  messages: readonly unknown[],
  context: PrepareContext,
): CanonicalRequest {
  const maxOutputTokens = readMaxOutputTokens(scalars, model);
  const sampling = readSampling(scalars, body);
  const reasoning = readReasoning(scalars, body, maxOutputTokens);
  const cache = readCacheHints(scalars);
  const tools = readTools(body.tools);
  const toolChoice = readToolChoice(body.tool_choice, tools, scalars.parallel_tool_calls ?? true);
  const outputConstraint = readResponseFormat(body.response_format);
  return {
    model: model.id,
    messages: readMessages(messages, {
      acceptsImages: context.acceptsImages(model.id),
      unreadable: context.settings.unreadableContent,
    }),
    tools,
    toolChoice,
    outputConstraint,
    sampling,
    reasoning,
    cache,
    maxOutputTokens,
  };
}

/** Reads the token limit of the answer; a limit of more than the window holds is as much as it holds. */
function readMaxOutputTokens(scalars: ChatScalars, model: CatalogModel): number | undefined {
  const limit = scalars.max_completion_tokens ?? scalars.max_tokens ?? undefined;
  return limit === undefined ? undefined : Math.min(limit, model.contextWindow);
}

/**
 * Reads the cache hints. The affinity key is still the caller's own here: only the route knows the tenant to make a
 * digest for.
 */
function readCacheHints(scalars: ChatScalars): CacheHints {
  const affinityKey = scalars.prompt_cache_key ?? "";
  if (affinityKey.length > MAX_CACHE_KEY_LENGTH && hasMoreCharacters(affinityKey, MAX_CACHE_KEY_LENGTH))
    throw tooLong(["prompt_cache_key"], MAX_CACHE_KEY_LENGTH);
  const name = scalars.cache_ttl ?? undefined;
  const ttl = name === undefined ? undefined : cacheTtl(name);
  if (name !== undefined && !ttl) throw oneOf(["cache_ttl"], CACHE_TTLS);
  return { affinityKey, isolationSalt: "", ttl };
}

/** Returns whether a text has more characters than `limit`; one may take two units of a string's length. */
function hasMoreCharacters(text: string, limit: number): boolean {
  return text.length > 2 * limit || [...text].length > limit;
}

function replyOptions(
  body: JsonObject,
  scalars: ChatScalars,
  model: CatalogModel,
  { reasoningField }: FormatSettings,
): ReplyOptions {
  return {
    reasoningFields: reasoningField === "both" ? ["reasoning_content", "reasoning"] : [reasoningField],
    model: model.id,
    logprobs: scalars.logprobs ?? false,
    includeUsage: scalars.stream_options?.include_usage ?? false,
    echoServiceTier: body.service_tier !== undefined && body.service_tier !== null,
  };
}
