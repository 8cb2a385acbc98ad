import * as z from "zod";
import {
  type OutputConstraint,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  type CacheBreakpoint,
  type Message,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue, missing, wrongType } from "../field-error.ts";
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
import { schemaText, toolOf } from "../tools.ts";
import { CompactionEncoder, compactedReply, type SummaryWish, summaryWish } from "./compaction.ts";
import { conversation, refuseSystemRole, systemMessage } from "./conversation.ts";
import { type Asked, messageReply, type ThinkingDisplay } from "./reply.ts";
import { countTokensBody, MESSAGES_UNTAKEN, type MessagesBody, messagesRequest, tool as toolSchema } from "./schema.ts";
import { MessagesEncoder } from "./stream.ts";

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
    return asked.compacts ? new CompactionEncoder(stream) : stream;
  },
  reply: (head, completion, asked) => (asked.compacts ? compactedReply : messageReply)(head, asked, completion),
};

function diagnosed({ diagnostics }: MessagesBody): Asked["diagnosed"] {
  return isJsonObject(diagnostics) ? { before: typeof diagnostics.previous_message_id === "string" } : undefined;
}

/** Tools stay for a summary, too: they are part of the prefix that the engine has cached. */
function withSummaryRequest({ request, messagePlaces = [], ...rest }: Asking, { instructions }: SummaryWish): Asking {
  const { messages, tools } = request;
  const asking = {
    ...request,
    messages: [...messages, summaryRequest(instructions)],
    toolChoice: toolChoiceOf({ type: "none", name: undefined }, tools),
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
  const { tools, paths: toolPaths } = toolsOf(body.tools);
  const toolChoice = toolChoiceOf(body.tool_choice, tools);
  const system = systemMessage(body.system);
  const placed = conversation(body.messages, {
    acceptsImages: context.acceptsImages(model.id),
    unreadable: context.settings.unreadableContent,
    sealer: context.sealer(model.id),
    ...context.settings,
  });
  const turns = placed.map(({ message }) => message);
  const places = placed.map(({ place }) => place);
  const breakpoint = cacheBreakpoint(body.cache_control);
  const request: CanonicalRequest = {
    model: model.id,
    messages: withFinalBreakpoint(system ? [system, ...turns] : turns, breakpoint),
    tools,
    toolChoice,
    outputConstraint: outputConstraintOf(body),
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: body.top_k ?? undefined,
      stop: stopStrings(body.stop_sequences),
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

/** The vendor's tools without a schema, by the names that a refusal shows. */
const VENDOR_TOOLS = [
  ...["web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset"],
  ...["bash", "text_editor", "memory", "computer", "browser_toolset"],
];

/** The name of a tool that is listed while an agent holds its other tools back; it cannot be called. */
const PLACEHOLDER = "DeferredToolPlaceholder";

/** Returns the declared tools with their paths in the body. */
function toolsOf(list: MessagesBody["tools"]) {
  const names = new Set<string>();
  const tools: Tool[] = [];
  const paths: FieldPath[] = [];
  for (const [index, source] of (list ?? []).entries()) {
    const path = ["tools", index];
    if (isJsonObject(source)) refuseVendorTool(source, path);
    const { input_schema: schema, ...declared } = checked(toolSchema, source, path);
    const tool = toolOf(declared, schema, [...path, "input_schema"], cacheBreakpoint(declared.cache_control));
    if (names.has(tool.name)) throw invalidValue([...path, "name"], "Tool names must be unique.");
    names.add(tool.name);
    if (tool.name === PLACEHOLDER && declared.defer_loading === true) continue;
    if (Array.isArray(declared.allowed_callers) && !declared.allowed_callers.includes("direct")) continue;
    tools.push(tool);
    paths.push(path);
  }
  return { tools, paths };
}

const MODES = {
  auto: ToolChoiceMode.AUTO,
  any: ToolChoiceMode.REQUIRED,
  tool: ToolChoiceMode.NAMED,
  none: ToolChoiceMode.NONE,
} as const;

const NAME = z.string().min(1);

/** Undefined where there are no tools. */
function toolChoiceOf(choice: MessagesBody["tool_choice"], tools: readonly Tool[]): ToolChoice | undefined {
  const mode = MODES[choice?.type ?? "auto"];
  const path = ["tool_choice"];
  const name = choice && mode === ToolChoiceMode.NAMED ? checked(NAME, choice.name, [...path, "name"]) : "";
  if (mode === ToolChoiceMode.NAMED && !tools.some((tool) => tool.name === name))
    throw invalidValue([...path, "name"], "no tool of this name is in 'tools'.");
  const disableParallelCalls = choice?.disable_parallel_tool_use ?? false;
  if (tools.length > 0) return { mode, name, disableParallelCalls, allowedNames: [] };
  if (mode === ToolChoiceMode.REQUIRED) throw invalidValue(path, "a tool can only be asked for where 'tools' has one.");
  return undefined;
}

function refuseVendorTool(source: JsonObject, path: FieldPath): void {
  const type = source.type ?? "custom";
  if (typeof type !== "string") throw wrongType([...path, "type"], "a string", type);
  if (type === "custom" || (source.input_schema ?? undefined) !== undefined) return;
  const kind = VENDOR_TOOLS.find((name) => type.startsWith(name));
  const named = kind ? `tools of the type '${kind}' are` : "a tool of this type is";
  const explanation = `${named} not offered here, only tools with a schema of their own.`;
  const schemaPath = [...path, "input_schema"];
  throw new ApiError("missing_required_parameter", `${schemaPath.join(".")}: Field required; ${explanation}`, {
    path: schemaPath,
    detail: "vendor_tool",
  });
}
