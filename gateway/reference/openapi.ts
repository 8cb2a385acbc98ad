import * as z from "zod";
import { chatChunk, chatCompletion } from "../formats/chat/reply-schema.ts";
import { chatRequest } from "../formats/chat/schema.ts";
import { named, tag } from "../formats/fields.ts";
import { message, messageEvents, tokenCount } from "../formats/messages/reply-schema.ts";
import { countTokensRequest, messagesRequest } from "../formats/messages/schema.ts";
import { compacted, inputTokenCount, response, responseEvents } from "../formats/responses/reply-schema.ts";
import { responsesRequest } from "../formats/responses/schema.ts";
import { type Operation, ROUTES, type RouteSpec } from "../routes.ts";
import { REPLY_HEADERS } from "./headers.ts";
import { model, modelList } from "./models.ts";

const errorText = z.string().describe("The fault, for people to read.");

const errorA = named("ErrorA", "The body of an error of chat, models and responses.", {
  error: named("ErrorObjectA", "The error. In a stream of chat it is the `data` of the last event but `[DONE]`.", {
    message: errorText,
    type: z.string().describe("The kind of the error, for SDKs."),
    param: z
      .string()
      .nullable()
      .describe("Path of the field at fault, such as `messages[0].content[1].type`; null where no field is."),
    code: z.string().describe("The code of the error, by which programs distinguish errors."),
  }),
});

const errorB = named(
  "ErrorB",
  "The body of an error of messages and counts; in a stream, the `data` of the event `error`, which ends it.",
  {
    type: tag("error"),
    error: named("ErrorObjectB", "The error.", {
      type: z.string().describe("The kind of the error, by which programs distinguish errors."),
      message: z
        .string()
        .describe("The fault, for people to read. It begins with the path of the field at fault, where one is."),
      details: z
        .looseObject({ error_code: z.string().optional().describe("A word that some SDKs steer by.") })
        .optional()
        .describe("Further facts for SDKs; absent for most errors."),
    }),
    request_id: z.string().describe("The id of the request, as in the headers."),
  },
);

export type SchemaNode = z.core.JSONSchema.BaseSchema;

const TAGS = {
  Chat: "Chat completions (Format A).",
  Messages: "Messages (Format B).",
  Responses: "Responses, of which nothing is stored.",
  Models: "What a key may use.",
} as const;

type OperationFacts = {
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  readonly request?: z.ZodType;
  /** A request without its model, which the service accepts. Absent: the operation has no body. */
  readonly example?: object;
  /** The schema of the reply to a request without `stream`. Default: a document of another kind. */
  readonly reply?: z.ZodType;
  /** The schemas of the events of a stream. Default: the operation does not stream. */
  readonly events?: readonly z.ZodType[];
};

/** V0: additions are allowed; promised behaviour keeps its meaning within a version. */
export const CONTRACT_VERSION = "0.1.0";

const HELLO = { role: "user", content: "Hello!" };

/** Probes are not part of the contract. */
export const OPERATIONS: Readonly<Record<Exclude<Operation, "probe" | "health">, OperationFacts>> = {
  chat: {
    tag: "Chat",
    example: { messages: [HELLO], max_tokens: 100 },
    summary: "Makes a chat completion (Format A).",
    request: chatRequest,
    reply: chatCompletion,
    events: [chatChunk, errorA],
  },
  messages: {
    tag: "Messages",
    example: { messages: [HELLO], max_tokens: 100 },
    summary: "Makes a message (Format B).",
    request: messagesRequest,
    reply: message,
    events: [...messageEvents, errorB],
  },
  count_tokens: {
    tag: "Messages",
    example: { messages: [HELLO] },
    summary: "Counts the tokens of a message's prompt (Format B).",
    request: countTokensRequest,
    reply: tokenCount,
  },
  responses: {
    tag: "Responses",
    example: { input: HELLO.content, max_output_tokens: 100 },
    summary: "Makes a response, of which nothing is stored.",
    request: responsesRequest,
    reply: response,
    events: responseEvents,
  },
  compact: {
    tag: "Responses",
    example: { input: [HELLO] },
    summary: "Writes a summary of a conversation, to go on with in its place. It is never streamed.",
    request: responsesRequest,
    reply: compacted,
  },
  input_tokens: {
    tag: "Responses",
    example: { input: HELLO.content },
    summary: "Counts the tokens of a response's prompt.",
    request: responsesRequest,
    reply: inputTokenCount,
  },
  list_models: { tag: "Models", summary: "Lists the models that the key may use.", reply: modelList },
  get_model: { tag: "Models", summary: "Shows one model.", reply: model },
  get_contract: { tag: "Models", summary: "Returns this document." },
};

const DESCRIPTION = [
  "An inference API for coding agents in three formats: chat completions (Format A), messages (Format B) and stateless",
  "responses. Null in an optional field of a request means that it is absent. Requests of chat and messages may hold",
  "further fields, which are ignored; replies and streams may gain fields.",
].join(" ");

const SCHEMAS = "#/components/schemas/";
const HEADERS = "#/components/headers/";

const JSON_TYPE = "application/json";

/** Returns the contract of the public API as an OpenAPI document, for a service with the models of these ids. */
export function openApiDocument(modelIds: readonly string[]) {
  const paths: Record<string, Record<string, object>> = {};
  for (const spec of ROUTES) {
    if (spec.operation === "probe" || spec.operation === "health") continue;
    paths[spec.path] = { [spec.methods[0].toLowerCase()]: operation(spec, OPERATIONS[spec.operation], modelIds) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "svc", version: CONTRACT_VERSION, description: DESCRIPTION },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
      },
      headers: Object.fromEntries(ALL_HEADERS.map(({ name, meaning }) => [name, headerObject(meaning)])),
      schemas: { ...NAMED, ...closedModels(modelIds) },
    },
  };
}

/** The bodies whose model has to be one of the catalog's ids. */
const CLOSED_MODELS = ["ChatRequest", "MessagesRequest", "CountTokensRequest"] as const;

function closedModels(modelIds: readonly string[]): Readonly<Record<string, SchemaNode>> {
  return Object.fromEntries(
    CLOSED_MODELS.map((name) => {
      const { properties, ...node } = NAMED[name] ?? {};
      return [
        name,
        { ...node, properties: { ...properties, model: { ...Object(properties?.model), enum: modelIds } } },
      ];
    }),
  );
}

function refer(schema: z.ZodType): SchemaNode {
  return { $ref: `${SCHEMAS}${schema.meta()?.id}` };
}

function namedSchemas(): Readonly<Record<string, SchemaNode>> {
  const roots = Object.values(OPERATIONS).flatMap(({ request, reply, events = [] }) => [request, reply, ...events]);
  const held = roots.filter((root) => root !== undefined);
  const written = z.toJSONSchema(z.object(Object.fromEntries([...held, errorA, errorB].entries())), {
    io: "input",
    override: withoutNoise,
  });
  const text = JSON.stringify(written.$defs).replaceAll('"#/$defs/', `"${SCHEMAS}`);
  return JSON.parse(text);
}

/** Removes zod's additions: the safe range as bounds of integers, and the default openness of objects. */
function withoutNoise({ jsonSchema }: { readonly jsonSchema: SchemaNode }): void {
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (JSON.stringify(jsonSchema.additionalProperties) === "{}") delete jsonSchema.additionalProperties;
}

/** Computed once, at the start, as writing them takes some tens of milliseconds. */
const NAMED = namedSchemas();

function operation(spec: RouteSpec, facts: OperationFacts, modelIds: readonly string[]): object {
  const error = refer(spec.envelope === "b" ? errorB : errorA);
  const ofBody = facts.request ? ["400", "404", "413", "429"] : [];
  const ofKey = spec.use === "open" ? [] : ["401"];
  const errors = [...ofBody, ...ofKey, ...(spec.path.endsWith("}") ? ["404"] : []), "default"].map((status) => [
    status,
    {
      description: ERROR_WORDS[status] ?? "Any other error.",
      headers: headersOf(spec, status),
      content: { [JSON_TYPE]: { schema: error } },
    },
  ]);
  const example = { model: modelIds[0], ...facts.example };
  return {
    operationId: spec.operation,
    tags: [facts.tag],
    summary: facts.summary,
    ...(spec.use === "open" && { security: [] }),
    ...parameters(spec),
    ...(facts.request && {
      requestBody: { required: true, content: { [JSON_TYPE]: { schema: refer(facts.request), example } } },
    }),
    responses: {
      "200": { description: "The request was answered.", headers: headersOf(spec, "200"), content: contentOf(facts) },
      ...Object.fromEntries(errors),
    },
  };
}

/** The words that a star in the name of a header stands for, by the envelope of its replies. */
const MEASURED = { a: ["requests", "tokens"], b: ["requests", "tokens", "input-tokens", "output-tokens"] } as const;

/** Headers that proxies and libraries read, which the document leaves out. */
const OF_TRANSPORT = ["allow", "cache-control", "connection", "content-type", "x-accel-buffering"];

const ALL_HEADERS = REPLY_HEADERS.filter(({ name }) => !OF_TRANSPORT.includes(name)).flatMap(
  ({ name, where, meaning }) =>
    MEASURED[where.startsWith("B") ? "b" : "a"]
      .slice(0, name.includes("*") ? undefined : 1)
      .map((measure) => ({ name: name.replace("*", measure), where, meaning })),
);

function headerObject(description: string): object {
  return { description, schema: { type: "string" } };
}

/** The headers that replies of this status have; those of "default" are of any error. */
function headersOf({ envelope, use }: RouteSpec, status: string): object {
  const has = (where: string): boolean => {
    if (where === "all") return true;
    if (use === "open") return false;
    if (where.endsWith("keys with limits")) return where.startsWith(envelope.toUpperCase());
    if (where.startsWith("generation")) return use === "generation";
    if (where === "some errors") return status !== "200";
    return where.split(", ").includes(status) || (status === "default" && where.includes("503"));
  };
  const names = ALL_HEADERS.flatMap(({ name, where }) => (has(where) ? name : []));
  return Object.fromEntries(names.map((name) => [name, { $ref: `${HEADERS}${name}` }]));
}

const ERROR_WORDS: Readonly<Record<string, string>> = {
  "400": "The request is not valid.",
  "401": "The API key is missing or opens nothing.",
  "404": "The model does not exist, or the key may not use it.",
  "413": "The body is larger than the service or the key allows.",
  "429": "A limit of the key refused the request.",
};

function contentOf({ reply, events }: OperationFacts): object {
  return {
    [JSON_TYPE]: { schema: reply ? refer(reply) : { type: "object" } },
    ...(events && {
      "text/event-stream": { schema: { description: "The `data` of one event.", anyOf: events.map(refer) } },
    }),
  };
}

function parameters({ path, envelope, operation }: RouteSpec): { readonly parameters?: readonly object[] } {
  const name = /\{(\w+)\}$/.exec(path)?.[1];
  const inPath = { name, in: "path", required: true, description: "The id of the model.", schema: { type: "string" } };
  const version = {
    name: "vendor-version",
    in: "header",
    required: false,
    description: "The version of Format B. `anthropic-version` means the same; any date is taken.",
    schema: { type: "string", default: "2023-06-01", pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
  };
  const client = {
    name: "client_version",
    in: "query",
    required: false,
    description: "The version of Codex. With any value the reply holds its catalog, `models`.",
    schema: { type: "string" },
  };
  const list = [
    ...(name === undefined ? [] : [inPath]),
    ...(operation === "list_models" ? [client] : []),
    ...(envelope === "b" ? [version] : []),
  ];
  return list.length === 0 ? {} : { parameters: list };
}
