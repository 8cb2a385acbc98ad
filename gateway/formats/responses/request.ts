import type { OutputConstraint, Sampling } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { type Catalog, findModel } from "../../catalog.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { priorityOfTurn } from "../agent-hints.ts";
import { previousNotFound, unsupportedValue } from "../field-error.ts";
import { promptCacheTtl, reasoningOfEffort } from "../fields.ts";
import {
  type CanonicalRequest,
  type CountFormat,
  countOf,
  type EveryField,
  type Format,
  INSTRUCTIONS,
  type ItemState,
  type PrepareContext,
  type Prepared,
} from "../format.ts";
import { textPart } from "../parts.ts";
import { catalogModel } from "../request-body.ts";
import { noCalls, schemaText } from "../tools.ts";
import { type KeptMessage, keptMessages } from "./compaction.ts";
import { readInput } from "./items.ts";
import type { ReplyView } from "./output-item.ts";
import type { Echo } from "./reply-schema.ts";
import { compactedReply, foldedReply } from "./response-object.ts";
import { checkBody, LOGPROBS, metadataOf, type ResponsesBody, SEALED_REASONING, turnMetadataOf } from "./schema.ts";
import { compactionStream, ResponsesStream } from "./stream.ts";
import { DeclaredTools, toolChoice } from "./tools.ts";

/** The Responses format, `POST /v1/responses`. It is stateless: every request brings its whole conversation. */
export const responses: Format<Answering> = {
  name: "responses",
  fields: {
    prompt: ["input"],
    instructions: ["instructions"],
    outputSchema: ["text", "format", "schema"],
    toolSchema: ["parameters"],
  },
  repeatsCutStreams: false,
  prepare: (body, context) => prepared(checkBody(body), context, false),
  encoder: (head, { echo, view }) => {
    const stream = new ResponsesStream(head, echo, view);
    return view.compacts ? compactionStream(head, stream) : stream;
  },
  reply: (head, completion, { echo, view }) => foldedReply(head, echo, view, completion),
};

/**
 * Compaction, `POST /v1/responses/compact`: the model writes a summary of the conversation, and the reply replaces the
 * conversation in later requests. The body is that of a response, which is never streamed.
 */
export const compaction: Format<Compacting> = {
  name: responses.name,
  fields: responses.fields,
  repeatsCutStreams: false,
  prepare: (value, context) => {
    const body = checkBody(value);
    if (body.stream) throw unsupportedValue(["stream"], "A compaction is not streamed: only false is supported.");
    const { options, ...rest } = prepared(body, context, true);
    return { ...rest, options: { ...options, kept: keptMessages(body.input) } };
  },
  encoder: responses.encoder,
  reply: (head, completion, { kept }) => compactedReply(head, kept, completion),
};

export type Answering = { readonly echo: Echo; readonly view: ReplyView };

type Compacting = Answering & { readonly kept: readonly KeptMessage[] };

/** Every event with a response object repeats instructions and tools, and is written in the main thread. */
const MAX_REPEATED_UNITS = 1_048_576;
const MAX_REPEATED_WORD_UNITS = 1_024;

/**
 * `compacts` requests a summary of the conversation; so may the last item. `earlierTools` are the lists of
 * `context.before.tools`; undefined for a request that no other continues.
 */
export function prepared(
  body: ResponsesBody,
  context: PrepareContext,
  compacts: boolean,
  earlierTools?: readonly unknown[],
): Prepared<Answering> {
  const model = catalogModel(catalogId(body.model, context.catalog), context);
  const effort = body.reasoning?.effort ?? undefined;
  const { prewarm } = body.prompt_cache_options ?? {};
  const limit = prewarm ? 0 : (body.max_output_tokens ?? undefined);
  const parallel = body.parallel_tool_calls ?? true;
  const declared = new DeclaredTools(context.settings.unsupportedTools);
  const declaredEcho = declared.add(body.tools ?? [], ["tools"]);
  const toolsEcho = repeatedTools(declared.tools, declaredEcho);
  restoreTools(declared, context.before, earlierTools ?? []);
  const format = textFormat(body.text?.format);
  const items = {
    sealer: context.sealer(model.id),
    acceptsImages: context.acceptsImages(model.id),
    unreadable: context.settings.unreadableContent,
    unsupported: context.settings.unsupportedTools,
    tools: declared,
    before: context.before,
    isContinued: earlierTools !== undefined,
  };
  if (context.before && context.before.acceptsImages !== items.acceptsImages) throw previousNotFound();
  const instructions = body.instructions ? [{ role: Role.SYSTEM, parts: [textPart(body.instructions)] }] : [];
  const input = readInput(body.input, items, compacts);
  const { tools, callable } = declared.shown(input.shown);
  const choice = toolChoice(body.tool_choice, { declared, callable, parallel });
  if (prewarm && input.compacts)
    throw unsupportedValue(["prompt_cache_options", "prewarm"], "A summary is an answer: only false is supported.");
  const ttl = promptCacheTtl(body.prompt_cache_options, body.prompt_cache_retention);
  const view = viewOf(body, declared, input.compacts);
  const request: CanonicalRequest = {
    model: model.id,
    messages: [...instructions, ...input.messages],
    tools,
    toolChoice: input.compacts ? noCalls(callable.size > 0) : choice,
    outputConstraint: input.compacts ? undefined : format.constraint,
    sampling: sampling(body, view.logprobs),
    reasoning: effort === undefined ? undefined : reasoningOfEffort(effort),
    // The caller's own key: the route, which has the tenant, makes a digest of it.
    cache: { affinityKey: body.prompt_cache_key ?? "", isolationSalt: "", ttl },
    maxOutputTokens: limit === undefined ? undefined : Math.min(limit, model.contextWindow),
  };
  const echo = echoOf(body, model.id, { parallel, tools: toolsEcho, format: format.echo });
  return {
    model: model.id,
    stream: body.stream ?? false,
    request,
    options: { echo, view },
    priority: priorityOfTurn(turnMetadataOf(body)),
    toolPaths: declared.paths,
    schemaPaths: declared.schemaPaths,
    messagePlaces: [...instructions.map(() => INSTRUCTIONS), ...input.places],
    lead: instructions.length,
    after: input.after,
  };
}

function viewOf(body: ResponsesBody, { names }: DeclaredTools, compacts: boolean): ReplyView {
  const included = new Set(body.include ?? []);
  const sealReasoning = included.has(SEALED_REASONING);
  return {
    reasoning: summaryOf(body) !== null ? "summary" : sealReasoning ? "text" : "none",
    sealReasoning,
    logprobs: included.has(LOGPROBS) || (body.top_logprobs ?? 0) > 0,
    toolNames: names,
    compacts,
    diagnosed: typeof body.prompt_cache_options?.comparison_response_id === "string",
    obfuscate: body.stream_options?.include_obfuscation ?? false,
  };
}

/** Adds the tools of earlier items again. Throws `ApiError` if the request's own tools make them others. */
function restoreTools(declared: DeclaredTools, before: ItemState | undefined, lists: readonly unknown[]): void {
  for (const [at, { deferred, names }] of (before?.tools ?? []).entries()) {
    const list = isJsonObject(lists[at]) ? lists[at].tools : undefined;
    const added = declared.addOfItem(Array.isArray(list) ? list : [], ["input", -1, "tools"], deferred);
    if (added.join() !== names.join()) throw previousNotFound();
  }
}

/** In this format, `svc/glm53` and `svc/svc-glm53` are aliases of `svc-glm53`. */
function catalogId(model: unknown, catalog: Catalog): unknown {
  if (typeof model !== "string" || !model.startsWith("svc/")) return model;
  const name = model.slice("svc/".length);
  return findModel(name, catalog) ? name : `svc-${name}`;
}

/** `generate_summary` is the older name of the field. */
function summaryOf(body: ResponsesBody): string | null {
  return body.reasoning?.summary ?? body.reasoning?.generate_summary ?? null;
}

function sampling(body: ResponsesBody, logprobs: boolean): EveryField<Sampling> {
  return {
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    topLogprobs: logprobs ? (body.top_logprobs ?? 0) : undefined,
    // What the format does not have.
    topK: undefined,
    minP: undefined,
    repetitionPenalty: undefined,
    minOutputTokens: undefined,
    seed: undefined,
    stop: [],
    logitBias: {},
  };
}

type Derived = { readonly parallel: boolean; readonly tools: Echo["tools"]; readonly format: Echo["text"]["format"] };

function repeatedTools(tools: readonly Tool[], echo: Echo["tools"]): Echo["tools"] {
  const units = tools.reduce(
    (sum, { name, description, parametersJsonSchema }) =>
      sum + name.length + description.length + parametersJsonSchema.length,
    0,
  );
  return units <= MAX_REPEATED_UNITS ? echo : [];
}

function repeated(text: string | null | undefined, mostUnits = MAX_REPEATED_WORD_UNITS): string | null {
  return text !== null && text !== undefined && text.length <= mostUnits ? text : null;
}

function echoOf(body: ResponsesBody, model: string, { parallel, tools, format }: Derived): Echo {
  return {
    frequency_penalty: body.frequency_penalty ?? 0,
    instructions: repeated(body.instructions, MAX_REPEATED_UNITS),
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: metadataOf(body.metadata),
    model,
    parallel_tool_calls: parallel,
    presence_penalty: body.presence_penalty ?? 0,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: repeated(body.prompt_cache_retention),
    reasoning: { effort: body.reasoning?.effort ?? null, summary: summaryOf(body) },
    safety_identifier: repeated(body.safety_identifier),
    temperature: body.temperature ?? 1,
    text: { format },
    tool_choice: body.tool_choice ?? "auto",
    tools,
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    user: repeated(body.user),
  };
}

export const inputTokens: CountFormat = {
  name: responses.name,
  fields: responses.fields,
  prepare: (body, context) => countOf(responses.prepare(body, context)),
  reply: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
};

/** `constraint` is enforced by the engine, and `echo` is the reply's repetition of it. */
type TextFormat = { readonly constraint: OutputConstraint | undefined; readonly echo: JsonObject };

function textFormat(format: NonNullable<ResponsesBody["text"]>["format"]): TextFormat {
  switch (format?.type) {
    case "json_object":
      return { constraint: { kind: { $case: "jsonObject", value: {} } }, echo: { type: "json_object" } };
    case "json_schema": {
      const { name, schema, description } = format;
      const strict = format.strict ?? false;
      const schemaJson = schemaText(schema, ["text", "format", "schema"], "response", strict);
      return {
        constraint: { kind: { $case: "jsonSchema", value: { name, schemaJson, strict } } },
        echo: { type: "json_schema", name, description: description ?? null, schema, strict },
      };
    }
    default:
      return { constraint: undefined, echo: { type: "text" } };
  }
}
