import {
  type OutputConstraint,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CacheBreakpoint, Message } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { missing } from "../field-error.ts";
import { cacheBreakpoint, EFFORTS, reasoningBudget, stopStrings } from "../fields.ts";
import {
  type CanonicalRequest,
  type CountFormat,
  countOf,
  type Format,
  INSTRUCTIONS,
  type PrepareContext,
  type Prepared,
  WHOLE_PROMPT,
} from "../format.ts";
import { catalogModel, refuseUntaken, requestBody } from "../request-body.ts";
import { summaryRequest } from "../summary.ts";
import { noCalls, schemaText } from "../tools.ts";
import { compactedReply, compactionStream, type SummaryWish, summaryWish } from "./compaction.ts";
import { conversation, refuseSystemRole, systemMessage } from "./conversation.ts";
import { type Asked, messageReply, type ThinkingDisplay } from "./reply.ts";
import { countTokensBody, MESSAGES_UNTAKEN, type MessagesBody, messagesRequest } from "./schema.ts";
import { MessagesEncoder } from "./stream.ts";
import { RequestTools } from "./tools.ts";

/** Format B, `POST /v1/messages`. */
export const messages: Format<Asked> = {
  name: "messages",
  fields: {
    prompt: ["messages"],
    instructions: ["system"],
    outputSchema: ["output_config", "format", "schema"],
    toolSchema: ["input_schema"],
  },
  repeatsCutStreams: true,
  prepare(value, context) {
    const { body, ...rest } = checkedBody(value, messagesRequest, context);
    const { model, messages } = rest.request;
    const wish = summaryWish(body, messages);
    const options = { model, display: thinkingDisplay(body), compacts: wish !== undefined, diagnosed: diagnosed(body) };
    return { model, stream: body.stream ?? false, options, ...(wish ? withSummaryRequest(rest, wish) : rest) };
  },
  encoder: (head, asked) => {
    const stream = new MessagesEncoder(head, asked);
    return asked.compacts ? compactionStream(stream) : stream;
  },
  reply: (head, completion, asked) => (asked.compacts ? compactedReply : messageReply)(head, asked, completion),
};

function diagnosed({ diagnostics }: MessagesBody): Asked["diagnosed"] {
  return isJsonObject(diagnostics) ? { before: typeof diagnostics.previous_message_id === "string" } : undefined;
}

function withSummaryRequest({ request, messagePlaces = [], ...rest }: Asking, { instructions }: SummaryWish): Asking {
  const { messages, tools } = request;
  const asking = {
    ...request,
    messages: [...messages, summaryRequest(instructions)],
    toolChoice: noCalls(tools.length > 0),
    outputConstraint: undefined,
  };
  return { ...rest, request: asking, messagePlaces: [...messagePlaces, WHOLE_PROMPT] };
}

export const countTokens: CountFormat = {
  name: messages.name,
  fields: messages.fields,
  prepare: (body, context) => countOf(checkedBody(body, countTokensBody, context)),
  reply: (inputTokens) => ({ input_tokens: inputTokens }),
};

type Asking = Pick<Prepared, "request" | "toolPaths" | "messagePlaces">;

type CheckedBody = Asking & { readonly body: MessagesBody };

function checkedBody(
  value: unknown,
  schema: typeof messagesRequest | typeof countTokensBody,
  context: PrepareContext,
): CheckedBody {
  const raw = requestBody(value);
  if (context.settings.systemRole === "reject") refuseSystemRole(raw);
  refuseUntaken(raw, MESSAGES_UNTAKEN);
  const model = catalogModel(raw.model, context);
  const body: MessagesBody = checked(schema, raw);
  const maxOutputTokens = Math.min(answerLimit(body.max_tokens), model.contextWindow);
  const requestTools = new RequestTools(body.tools);
  const system = systemMessage(body.system);
  const placed = conversation(body.messages, {
    acceptsImages: context.acceptsImages(model.id),
    unreadable: context.settings.unreadableContent,
    sealer: context.sealer(model.id),
    tools: requestTools,
    ...context.settings,
  });
  // Now that the conversation has loaded what it loads.
  const { tools, paths: toolPaths } = requestTools.shown;
  const turns = placed.map(({ message }) => message);
  const places = placed.map(({ place }) => place);
  const breakpoint = cacheBreakpoint(body.cache_control);
  const request: CanonicalRequest = {
    model: model.id,
    messages: withFinalBreakpoint(system ? [system, ...turns] : turns, breakpoint),
    tools,
    toolChoice: requestTools.choice(body.tool_choice),
    outputConstraint: outputConstraintOf(body),
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: body.top_k ?? undefined,
      stop: stopStrings(body.stop_sequences),
      // What the format does not have.
      minP: undefined,
      frequencyPenalty: undefined,
      presencePenalty: undefined,
      repetitionPenalty: undefined,
      minOutputTokens: undefined,
      seed: undefined,
      topLogprobs: undefined,
      logitBias: {},
    },
    reasoning: reasoningOf(body, maxOutputTokens),
    cache: { affinityKey: userId(body.metadata), isolationSalt: "", ttl: breakpoint?.ttl },
    maxOutputTokens,
  };
  const messagePlaces = system ? [INSTRUCTIONS, ...places] : places;
  return { body, request, toolPaths, messagePlaces };
}

/** Counting accepts any `max_tokens`; an invalid one is no limit. */
function answerLimit(limit: unknown): number {
  return typeof limit === "number" && Number.isSafeInteger(limit) && limit >= 1 ? limit : Number.POSITIVE_INFINITY;
}

function outputConstraintOf(body: MessagesBody): OutputConstraint | undefined {
  const current = body.output_config?.format;
  const format = current ?? body.output_format;
  if (!format) return undefined;
  const path = current ? ["output_config", "format", "schema"] : ["output_format", "schema"];
  const schemaJson = schemaText(format.schema, path, "response", true);
  // This format has no names of schemas, and some engines require one.
  return { kind: { $case: "jsonSchema", value: { name: "output", schemaJson, strict: true } } };
}

/** Marks the end of all messages if `cache_control` is set beside them. */
function withFinalBreakpoint(messages: readonly Message[], breakpoint: CacheBreakpoint | undefined) {
  const last = messages.at(-1);
  const part = last?.parts.at(-1);
  if (!breakpoint || !last || !part) return messages;
  const parts = [...last.parts.slice(0, -1), { ...part, cacheBreakpoint: breakpoint }];
  return [...messages.slice(0, -1), { ...last, parts }];
}

/** Requests of one user share prefixes. The id is never refused, as it only influences routing. */
function userId(metadata: unknown): string {
  const id = isJsonObject(metadata) ? metadata.user_id : undefined;
  return typeof id === "string" ? id : "";
}

/** `summarized`, `updates` and any other value of `display` give the text, as there is no summary of it. */
function thinkingDisplay(body: MessagesBody): ThinkingDisplay {
  const off = body.thinking ? body.thinking.type === "disabled" : body.output_config?.effort === "none";
  if (off) return "none";
  return body.thinking?.display === "omitted" ? "omitted" : "shown";
}

function reasoningOf(body: MessagesBody, maxOutputTokens: number): Reasoning | undefined {
  const { thinking, output_config: config } = body;
  if (!thinking && !config?.effort) return undefined;
  const effort = config?.effort ? EFFORTS[config.effort] : ReasoningEffort.UNSPECIFIED;
  switch (thinking?.type) {
    case undefined:
      return { mode: config?.effort === "none" ? ReasoningMode.DISABLED : ReasoningMode.UNSPECIFIED, effort };
    case "disabled":
      return { mode: ReasoningMode.DISABLED, effort };
    case "adaptive":
    case "between_tools":
      return { mode: ReasoningMode.ENABLED, effort };
    case "enabled": {
      const budget = thinking.budget_tokens;
      if (!budget) throw missing(["thinking", "budget_tokens"]);
      return { mode: ReasoningMode.ENABLED, effort, budgetTokens: reasoningBudget(budget, maxOutputTokens) };
    }
    default:
      return thinking?.type satisfies undefined;
  }
}
