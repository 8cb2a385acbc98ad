import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CacheBreakpoint, Message } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { cacheBreakpoint } from "../cache-control.ts";
import { checked } from "../checked.ts";

import { type CanonicalRequest, INSTRUCTIONS, type PrepareContext } from "../format.ts";
import { schemaText } from "../json-schema-limits.ts";
import { catalogModel, requestBody } from "../request-body.ts";
import { stopStrings } from "../stop-strings.ts";
import { refuseUntaken } from "../untaken-field.ts";
import { conversation } from "./conversation.ts";
import { reasoningOf } from "./reasoning.ts";
import { countTokensBody, type MessagesBody, messagesRequest } from "./schema.ts";
import { refuseSystemRole, systemMessage } from "./system.ts";
import { toolChoiceOf, toolsOf } from "./tools.ts";
import { MESSAGES_UNTAKEN } from "./untaken-fields.ts";

export type CheckedBody = {
  /** The flat part of the body. */
  readonly body: MessagesBody;
  readonly request: CanonicalRequest;
  /** The paths in the body of the request's tools. */
  readonly toolPaths: readonly FieldPath[];
  /** The number of the body's message that each canonical one came from; `INSTRUCTIONS` for `system`. */
  readonly messagePlaces: readonly number[];
};

/** Checks the body of a message. Throws `ApiError` only. */
export function checkMessagesBody(value: unknown, context: PrepareContext): CheckedBody {
  return check(value, messagesRequest, context);
}

/** Checks the body of a count: a message without the checks of `max_tokens`. Throws `ApiError` only. */
export function checkCountTokensBody(value: unknown, context: PrepareContext): CheckedBody {
  return check(value, countTokensBody, context);
}

function check(
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

/** Returns the token limit of the answer. Counting accepts any `max_tokens`; an invalid one is no limit. */
function answerLimit(limit: unknown): number {
  return typeof limit === "number" && Number.isSafeInteger(limit) && limit >= 1 ? limit : Number.POSITIVE_INFINITY;
}

/** The name of every schema: this format has none, and some engines require one. */
const SCHEMA_NAME = "output";

function outputConstraintOf(body: MessagesBody): OutputConstraint | undefined {
  const current = body.output_config?.format;
  const format = current ?? body.output_format;
  if (!format) return undefined;
  const path = current ? ["output_config", "format", "schema"] : ["output_format", "schema"];
  const schemaJson = schemaText(format.schema, path, "response", true);
  return { kind: { $case: "jsonSchema", value: { name: SCHEMA_NAME, schemaJson, strict: true } } };
}

/** Marks the end of all messages if `cache_control` is set beside them. */
function withFinalBreakpoint(messages: readonly Message[], breakpoint: CacheBreakpoint | undefined) {
  const last = messages.at(-1);
  const part = last?.parts.at(-1);
  if (!breakpoint || !last || !part) return messages;
  const parts = [...last.parts.slice(0, -1), { ...part, cacheBreakpoint: breakpoint }];
  return [...messages.slice(0, -1), { ...last, parts }];
}

/**
 * Returns the caller's user id, if any: requests of one user share prefixes. It is never refused, as it only influences
 * routing.
 */
function userId(metadata: unknown): string {
  const id = isJsonObject(metadata) ? metadata.user_id : undefined;
  return typeof id === "string" ? id : "";
}
