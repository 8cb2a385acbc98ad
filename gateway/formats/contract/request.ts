import { BinaryReader } from "@bufbuild/protobuf/wire";
import { shownTools } from "../../../deploy/runtime/contract/shown-tools.ts";
import {
  CountTokensRequest,
  GenerateRequest,
  type OutputConstraint,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
  type Sampling,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import {
  aboveMaximum,
  belowMinimum,
  invalidSchema,
  invalidValue,
  oneOf,
  tooLong,
  tooMany,
  unsupportedParameter,
} from "../field-error.ts";
import { FOR_LOAD_TESTS, MAX_LOGIT_BIAS, MAX_STOP_LENGTH, MAX_STOP_STRINGS, reasoningBudget } from "../fields.ts";
import type { CountFormat, EveryField, Format } from "../format.ts";
import { catalogModel } from "../request-body.ts";
import { EMPTY_PARAMETERS, MAX_SCHEMA_BYTES, MAX_TOOLS, schemaText, toolName } from "../tools.ts";
import { breakpointOf, checkedCacheHints, checkedMessages } from "./conversation.ts";

/*
 * The contract itself as a format: a gRPC client already sends a request of the contract, which only has to pass the
 * same checks as any caller's. Fields that only the gateway may set are dropped here, and set by the encoder of the
 * engine's message.
 */

const FIELDS = {
  prompt: ["messages"],
  instructions: ["messages"],
  outputSchema: ["output_constraint", "json_schema", "schema_json"],
  toolSchema: ["parameters_json_schema"],
} as const;

/** Generate of the contract. Its answers are the canonical events themselves, so it has no encoder. */
export const contractGenerate: Pick<Format, "name" | "fields" | "prepare"> = {
  name: "grpc",
  fields: FIELDS,
  prepare(body, context) {
    const request = decodeBounded(bytesOf(body), (reader) => GenerateRequest.decode(reader));
    const model = catalogModel(request.model || undefined, context);
    // The answer would silently start again, which no client with a continuation can want.
    if (request.continuation) throw unsupportedParameter(["continuation"], "The gateway itself goes on with answers.");
    if (request.baseDigest.length > 0)
      throw unsupportedParameter(["base_digest"], "The gateway itself leaves out what nodes have: send all messages.");
    const limit = request.maxOutputTokens;
    checkNumber(limit, ["max_output_tokens"], 0, Number.MAX_SAFE_INTEGER);
    const maxOutputTokens = limit === undefined ? undefined : Math.min(limit, model.contextWindow);
    const tools = checkedTools(request.tools);
    const messages = checkedMessages(request.messages, context.acceptsImages(model.id));
    const canonical = {
      model: model.id,
      tools,
      toolChoice: checkedToolChoice(request.toolChoice, shownTools(tools, messages)),
      outputConstraint: checkedConstraint(request.outputConstraint),
      sampling: checkedSampling(request.sampling, context.loadTests),
      reasoning: checkedReasoning(request.reasoning, maxOutputTokens),
      cache: checkedCacheHints(request.cache),
      maxOutputTokens,
      messages,
    };
    return { model: model.id, stream: true, request: canonical, options: {} };
  },
};

export const contractCount: Pick<CountFormat, "name" | "fields" | "prepare"> = {
  name: "grpc",
  fields: FIELDS,
  prepare(body, context) {
    const request = decodeBounded(bytesOf(body), (reader) => CountTokensRequest.decode(reader));
    const model = catalogModel(request.model || undefined, context);
    const tools = checkedTools(request.tools);
    const messages = checkedMessages(request.messages, context.acceptsImages(model.id));
    const toolChoice = checkedToolChoice(request.toolChoice, shownTools(tools, messages));
    const reasoning = checkedReasoning(request.reasoning, undefined);
    return { model: model.id, request: { model: model.id, messages, tools, toolChoice, reasoning } };
  },
};

function bytesOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body;
  throw new ApiError("bad_request", "The request has no message.", { detail: "message_unreadable" });
}

/**
 * The most tags and lengths that a message may hold: two bytes can become an object of many times their size. A text
 * part takes about six of them, so the limit allows some 60,000 parts.
 */
const MAX_READS = 400_000;

/** A message of too many pieces costs no more than finding that out. */
class BoundedReader extends BinaryReader {
  constructor(bytes: Uint8Array) {
    super(bytes);
    const read = this.uint32;
    let reads = 0;
    this.uint32 = () => {
      reads += 1;
      if (reads > MAX_READS)
        throw new ApiError("bad_request", "The request is made of too many pieces.", { detail: "message_pieces" });
      return read.call(this);
    };
  }
}

/** Throws `ApiError` for invalid bytes, and for a message of too many pieces. */
function decodeBounded<Message>(bytes: Uint8Array, decode: (reader: BinaryReader) => Message): Message {
  try {
    return decode(new BoundedReader(bytes));
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError("bad_request", "The request cannot be read.", { detail: "message_unreadable", cause: error });
  }
}

function checkNumber(value: number | undefined, path: FieldPath, least: number, most: number): void {
  if (value === undefined) return;
  if (Number.isNaN(value)) throw invalidValue(path, "expected a number.");
  if (value < least) throw belowMinimum(path, least, Number.isInteger(value));
  if (value > most) throw aboveMaximum(path, most, Number.isInteger(value));
}

/** `names` are the values of the enum by their names in the contract, without the prefix. */
function checkEnum(value: number, path: FieldPath, names: Readonly<Record<string, number>>, prefix: string): void {
  if (Object.values(names).includes(value)) return;
  throw oneOf(
    path,
    Object.keys(names).map((name) => `${prefix}_${name}`),
  );
}

const MAX_BIAS = 1_000;
const MAX_TOP_LOGPROBS = 50;

function checkedSampling(sampling: Sampling | undefined, loadTests: boolean): EveryField<Sampling> | undefined {
  if (!sampling) return undefined;
  const at = (name: string) => ["sampling", name];
  const within = (value: number | undefined, name: string, least: number, most: number) => {
    checkNumber(value, at(name), least, most);
    return value;
  };
  const biases = Object.values(sampling.logitBias);
  if (biases.length > MAX_LOGIT_BIAS) throw tooMany(at("logit_bias"), MAX_LOGIT_BIAS);
  // The key of an entry is the caller's: the path ends at the field.
  for (const bias of biases) checkNumber(bias, at("logit_bias"), -MAX_BIAS, MAX_BIAS);
  if (sampling.minOutputTokens && !loadTests) throw unsupportedParameter(at("min_output_tokens"), FOR_LOAD_TESTS);
  const stop = sampling.stop.filter((text) => text !== "");
  if (stop.length > MAX_STOP_STRINGS) throw tooMany(at("stop"), MAX_STOP_STRINGS);
  if (stop.some((text) => text.length > MAX_STOP_LENGTH)) throw tooLong(at("stop"), MAX_STOP_LENGTH);
  return {
    temperature: within(sampling.temperature, "temperature", 0, 2),
    topP: within(sampling.topP, "top_p", 0, 1),
    topK: within(sampling.topK, "top_k", 0, 2 ** 31 - 1),
    minP: within(sampling.minP, "min_p", 0, 1),
    frequencyPenalty: within(sampling.frequencyPenalty, "frequency_penalty", -2, 2),
    presencePenalty: within(sampling.presencePenalty, "presence_penalty", -2, 2),
    repetitionPenalty: within(sampling.repetitionPenalty, "repetition_penalty", 0.01, 10),
    seed: within(sampling.seed, "seed", 0, Number.MAX_SAFE_INTEGER),
    topLogprobs: within(sampling.topLogprobs, "top_logprobs", 0, MAX_TOP_LOGPROBS),
    logitBias: sampling.logitBias,
    stop,
    minOutputTokens: sampling.minOutputTokens,
  };
}

function checkedReasoning(
  reasoning: Reasoning | undefined,
  maxOutputTokens: number | undefined,
): Reasoning | undefined {
  if (!reasoning) return undefined;
  const { mode, effort, budgetTokens } = reasoning;
  checkEnum(mode, ["reasoning", "mode"], ReasoningMode, "REASONING_MODE");
  checkEnum(effort, ["reasoning", "effort"], ReasoningEffort, "REASONING_EFFORT");
  if (budgetTokens === undefined) return { mode, effort, budgetTokens };
  checkNumber(budgetTokens, ["reasoning", "budget_tokens"], 1, Number.MAX_SAFE_INTEGER);
  return { mode, effort, budgetTokens: reasoningBudget(budgetTokens, maxOutputTokens) };
}

function checkedConstraint(constraint: OutputConstraint | undefined): OutputConstraint | undefined {
  if (constraint?.kind?.$case !== "jsonSchema") return constraint;
  const { schemaJson, strict, name } = constraint.kind.value;
  const path = ["output_constraint", "json_schema"];
  if (name.length > 64) throw invalidValue([...path, "name"], "expected at most 64 characters.");
  schemaAsSent(schemaJson, [...path, "schema_json"], "response", strict);
  return constraint;
}

function checkedTools(tools: readonly Tool[]): readonly Tool[] {
  if (tools.length > MAX_TOOLS) throw tooMany(["tools"], MAX_TOOLS);
  const names = new Set<string>();
  return tools.map((tool, index) => {
    const path = ["tools", index];
    const name = checked(toolName, tool.name === "" ? undefined : tool.name, [...path, "name"]);
    if (names.has(name)) throw invalidValue([...path, "name"], "another tool has the same name.");
    names.add(name);
    const { description, strict, deferred, parametersJsonSchema: text } = tool;
    const schemaPath = [...path, "parameters_json_schema"];
    const parametersJsonSchema = text === "" ? EMPTY_PARAMETERS : schemaAsSent(text, schemaPath, "function", strict);
    const cacheBreakpoint = breakpointOf(tool.cacheBreakpoint, path);
    return { name, description, parametersJsonSchema, strict, deferred, cacheBreakpoint };
  });
}

/** Undefined where there are no tools to choose from. */
function checkedToolChoice(choice: ToolChoice | undefined, tools: readonly Tool[]): ToolChoice | undefined {
  if (!choice) return undefined;
  const { mode, name, allowedNames } = choice;
  checkEnum(mode, ["tool_choice", "mode"], ToolChoiceMode, "TOOL_CHOICE_MODE");
  const needed = mode === ToolChoiceMode.NAMED || mode === ToolChoiceMode.REQUIRED || allowedNames.length > 0;
  if (tools.length === 0) {
    if (needed) throw invalidValue(["tool_choice"], "it needs a tool, and there are none.");
    return undefined;
  }
  if (allowedNames.length > MAX_TOOLS) throw tooMany(["tool_choice", "allowed_names"], MAX_TOOLS);
  const known = new Set(tools.map((tool) => tool.name));
  if (mode === ToolChoiceMode.NAMED && !known.has(name))
    throw invalidValue(["tool_choice", "name"], "no tool has this name.");
  const unknown = allowedNames.findIndex((each) => !known.has(each));
  if (unknown >= 0) throw invalidValue(["tool_choice", "allowed_names", unknown], "no tool has this name.");
  return choice;
}

/** Checks a schema that the caller sent as text, and returns the text unchanged. */
function schemaAsSent(text: string, path: FieldPath, of: "response" | "function", strict: boolean): string {
  // A larger one is not parsed.
  if (Buffer.byteLength(text) > MAX_SCHEMA_BYTES)
    throw invalidSchema(path, `the schema is larger than ${MAX_SCHEMA_BYTES} bytes.`, of);
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    throw invalidSchema(path, "expected the JSON text of an object.", of);
  }
  if (!isJsonObject(schema)) throw invalidSchema(path, "expected the JSON text of an object.", of);
  schemaText(schema, path, of, strict);
  return text;
}
