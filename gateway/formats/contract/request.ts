import { CountTokensRequest, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError } from "../../errors.ts";
import { unsupportedParameter } from "../field-error.ts";
import type { CountFormat, Format } from "../format.ts";
import { catalogModel } from "../request-body.ts";
import { decodeBounded } from "./bounded-reader.ts";
import { checkedCacheHints } from "./cache-fields.ts";
import { checkedMessages } from "./conversation.ts";
import { checkedConstraint, checkedReasoning, checkedSampling } from "./generation-fields.ts";
import { numberWithin } from "./number-field.ts";
import { checkedToolChoice, checkedTools } from "./tool-fields.ts";

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
    const model = catalogModel(named(request.model), context);
    // The answer would silently start again, which no client with a continuation can want.
    if (request.continuation) throw unsupportedParameter(["continuation"], "The gateway itself goes on with answers.");
    const maxOutputTokens = maxTokensOf(request.maxOutputTokens, model.contextWindow);
    const tools = checkedTools(request.tools);
    const canonical = {
      model: model.id,
      tools,
      toolChoice: checkedToolChoice(request.toolChoice, tools),
      outputConstraint: checkedConstraint(request.outputConstraint),
      sampling: checkedSampling(request.sampling),
      reasoning: checkedReasoning(request.reasoning, maxOutputTokens),
      cache: checkedCacheHints(request.cache),
      maxOutputTokens,
      messages: checkedMessages(request.messages, context.acceptsImages(model.id)),
    };
    return { model: model.id, stream: true, request: canonical, options: {} };
  },
};

export const contractCount: Pick<CountFormat, "name" | "fields" | "prepare"> = {
  name: "grpc",
  fields: FIELDS,
  prepare(body, context) {
    const request = decodeBounded(bytesOf(body), (reader) => CountTokensRequest.decode(reader));
    const model = catalogModel(named(request.model), context);
    const tools = checkedTools(request.tools);
    const toolChoice = checkedToolChoice(request.toolChoice, tools);
    const reasoning = checkedReasoning(request.reasoning, undefined);
    const messages = checkedMessages(request.messages, context.acceptsImages(model.id));
    return { model: model.id, request: { model: model.id, messages, tools, toolChoice, reasoning } };
  },
};

function bytesOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body;
  throw new ApiError("bad_request", "The request has no message.", { detail: "message_unreadable" });
}

/** Returns a text of the contract as in other formats: an empty one is absent. */
function named(text: string): string | undefined {
  return text === "" ? undefined : text;
}

/** Returns the token limit of the answer, clamped to the window. */
function maxTokensOf(most: number | undefined, window: number): number | undefined {
  numberWithin(most, ["max_output_tokens"], 1, Number.MAX_SAFE_INTEGER);
  return most === undefined ? undefined : Math.min(most, window);
}
