import type { CatalogModel } from "../../catalog.ts";
import type { JsonObject } from "../../json/json-text.ts";
import { cacheTtl } from "../cache-control.ts";
import { checked } from "../checked.ts";
import { unsupportedValue } from "../field-error.ts";
import type { CanonicalRequest, Format, PrepareContext } from "../format.ts";
import { catalogModel, requestBody } from "../request-body.ts";
import { refuseUntaken } from "../untaken-field.ts";
import { readMessages } from "./messages.ts";
import { readReasoning } from "./reasoning.ts";
import { chatReply, type ReplyOptions } from "./reply.ts";
import { readResponseFormat } from "./response-format.ts";
import { readSampling } from "./sampling.ts";
import { type ChatBody, chatRequest } from "./schema.ts";
import { ChatEncoder } from "./stream.ts";
import { readToolChoice, readTools } from "./tool-fields.ts";
import { CHAT_UNTAKEN } from "./untaken-fields.ts";

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
    refuseUnsupported(raw, body);
    return {
      model: model.id,
      stream: body.stream ?? false,
      request: canonicalRequest(body, model, context),
      options: replyOptions(body, model),
    };
  },
  encoder: (head, options) => new ChatEncoder(head, options),
  reply: chatReply,
};

function refuseUnsupported(raw: JsonObject, { n, modalities }: ChatBody): void {
  refuseUntaken(raw, CHAT_UNTAKEN);
  if ((n ?? 1) > 1) throw unsupportedValue(["n"], "Only one choice per request is supported.");
  if (modalities?.some((modality) => modality !== "text"))
    throw unsupportedValue(["modalities"], "Only 'text' is supported.");
}

function canonicalRequest(body: ChatBody, model: CatalogModel, context: PrepareContext): CanonicalRequest {
  const maxOutputTokens = readMaxOutputTokens(body, model);
  const sampling = readSampling(body);
  const reasoning = readReasoning(body, maxOutputTokens);
  const tools = readTools(body.tools);
  const toolChoice = readToolChoice(body.tool_choice, tools, body.parallel_tool_calls ?? true);
  const outputConstraint = readResponseFormat(body.response_format);
  return {
    model: model.id,
    messages: readMessages(body.messages, {
      acceptsImages: context.acceptsImages(model.id),
      unreadable: context.settings.unreadableContent,
    }),
    tools,
    toolChoice,
    outputConstraint,
    sampling,
    reasoning,
    // The affinity key is still the caller's own here: the route, which has the tenant, makes a digest of it.
    cache: {
      affinityKey: body.prompt_cache_key ?? "",
      isolationSalt: "",
      ttl: body.cache_ttl ? cacheTtl(body.cache_ttl) : undefined,
    },
    maxOutputTokens,
  };
}

/** Reads the token limit of the answer, clamped to the window. */
function readMaxOutputTokens(body: ChatBody, model: CatalogModel): number | undefined {
  const limit = body.max_completion_tokens ?? body.max_tokens ?? undefined;
  return limit === undefined ? undefined : Math.min(limit, model.contextWindow);
}

function replyOptions(body: ChatBody, model: CatalogModel): ReplyOptions {
  return {
    model: model.id,
    logprobs: body.logprobs ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    echoServiceTier: body.service_tier !== undefined && body.service_tier !== null,
  };
}
