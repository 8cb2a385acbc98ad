import { CATALOG } from "../../gateway/catalog.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import { ERROR_ANSWERS } from "../../gateway/formats/error-envelope.ts";
import {
  MAX_CACHE_KEY_LENGTH,
  MAX_LOGIT_BIAS,
  MAX_MESSAGES,
  MAX_STOP_LENGTH,
  MAX_STOP_STRINGS,
} from "../../gateway/formats/fields.ts";
import { MAX_CLIENT_METADATA_BYTES, MAX_METADATA } from "../../gateway/formats/responses/schema.ts";
import { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_STRICT_SCHEMA_BYTES, MAX_TOOLS } from "../../gateway/formats/tools.ts";
import { MAX_HEADER_FIELDS } from "../../gateway/http/access/request-head.ts";
import { MAX_HEADER_BYTES } from "../../gateway/http/connection/public-app.ts";
import { MAX_JSON_DEPTH, MAX_JSON_NODES } from "../../gateway/json/json-body.ts";
import { type HeaderFact, REPLY_HEADERS, REQUEST_HEADERS } from "../../gateway/reference/headers.ts";
import { CONTRACT_VERSION, OPERATIONS } from "../../gateway/reference/openapi.ts";
import { ROUTES } from "../../gateway/routes.ts";
import { timeoutsSchema } from "../../gateway/upstream/call/timeouts.ts";
import { code, page, table } from "./markdown.ts";

const many = (count: number) => count.toLocaleString("en-US");
const bytes = (count: number) => (count >= 2 ** 20 ? `${count / 2 ** 20} MiB` : `${count / 2 ** 10} KiB`);

export function limitTable(): string {
  const { pairs, keyLength, valueLength } = MAX_METADATA;
  return table(
    ["what", "limit", "beyond it"],
    [
      ["body of a request", bytes(gatewayConfigSchema.shape.maxBodyBytes.parse(undefined)), "413"],
      ["all header fields together", bytes(MAX_HEADER_BYTES), "431"],
      ["number of header fields", many(MAX_HEADER_FIELDS), "431"],
      ["values of all kinds in a body's JSON", many(MAX_JSON_NODES), "400"],
      ["levels of JSON in a body", many(MAX_JSON_DEPTH), "400"],
      ["messages, or items of `input`", many(MAX_MESSAGES), "400"],
      ["tools", many(MAX_TOOLS), "400"],
      ["name of a tool", "1 to 128 of letters, digits, `_`, `-`, `.` and `:`", "400"],
      [
        "one JSON Schema",
        `${bytes(MAX_SCHEMA_BYTES)}, ${MAX_SCHEMA_DEPTH} levels with those of the body around it (60 in a tool of chat), no reference to elsewhere`,
        "400",
      ],
      ["one JSON Schema with `strict`", bytes(MAX_STRICT_SCHEMA_BYTES), "400"],
      ["stop texts", `${many(MAX_STOP_STRINGS)}, each of ${many(MAX_STOP_LENGTH)} characters`, "400"],
      ["entries of `logit_bias`", many(MAX_LOGIT_BIAS), "400"],
      ["`top_logprobs`", "20", "400"],
      ["`prompt_cache_key`", `${MAX_CACHE_KEY_LENGTH} characters`, "400"],
      [
        "`metadata` of responses",
        `${pairs} pairs, keys of ${keyLength} and values of ${valueLength} characters`,
        "400",
      ],
      ["`client_metadata` of responses", bytes(MAX_CLIENT_METADATA_BYTES), "400"],
      ["choices of an answer (`n`)", "1", "400"],
    ],
  );
}

type ModelFacts = { readonly size: string; readonly good: string };

const FACTS: Readonly<Record<string, ModelFacts>> = {
  "svc-glm53": {
    size: "744B, sparse mixture of experts",
    good: "coding agents: the default choice",
  },
  "svc-kimik3": {
    size: "2.8T mixture of experts, about 50B active",
    good: "much reasoning, images",
  },
  "svc-qwen": { size: "27B, dense", good: "quick answers" },
  "svc-minimax": { size: "230B mixture of experts", good: "long work without a person" },
  "svc-dsv4flash": { size: "not published", good: "fast code, reasoning and use of tools" },
};

/** Writes the table of the models of the catalog. Throws where one is not described. */
export function modelTable(): string {
  const rows = CATALOG.map(({ id, contextWindow }) => {
    const facts = FACTS[id];
    if (!facts) throw new Error(`no facts about the model ${id}`);
    return [code(id), windowOf(contextWindow), facts.size, facts.good];
  });
  return table(["model", "window in tokens", "size", "good for"], rows);
}

function windowOf(tokens: number): string {
  const short = tokens >= 2 ** 20 ? `${tokens / 2 ** 20}M` : `${tokens / 2 ** 10}K`;
  return `${short} (${tokens.toLocaleString("en-US")})`;
}

const ADDRESSES = [
  "Clients of chat and responses take `<base>/v1` as their base address, those of messages take `<base>`. All bodies are",
  "JSON in UTF-8, answers have the status 200, and streams are server-sent events. Query strings are ignored. The same",
  "description for programs, as OpenAPI 3.1, is at `GET /openapi.json` of the service.",
].join("\n");

const KEYS = [
  "Every endpoint but `/openapi.json` asks for an API key, in `Authorization: Bearer <key>` or in `x-api-key: <key>`; one key opens all formats, and of two a",
  "valid one is enough. `GET /v1/models` lists the models of a key; any other does not exist for it (404). Pages of other origins may call where the operator",
  "names them (`listen.allowOrigins`); better keep keys on servers.",
].join("\n");

const MODELS = [
  "Responses also take `svc/glm53` for `svc-glm53`. The window is for prompt and answer together; an operator may run less, which `GET /v1/models` says.",
  "A longer prompt is 400 (`context_length_exceeded`); an answer that does not fit ends for length.",
].join("\n");

const PAGES = [
  "`*` marks a required field of a request; null in an optional one means that it is absent. `GET /openapi.json` describes the fields of objects, replies",
  "and events. A refused field is 400 (`unsupported_parameter`), but for null and the values in brackets, which ask for what happens anyway. `[]` is an item",
  "of a list, with its type behind it where the row is about that type; a row covers content in content too.",
].join("\n");

const UNREADABLE = [
  "Images come as data in the request (PNG, JPEG, GIF, WebP), for models that take them. A part that a model cannot read (an image, a PDF, a recording,",
  "an image at an address) is 400 in the user's own last message. In results of tools and earlier messages a text takes its place, so that no",
  "session ends over it; `formats.unreadableContent` has it so everywhere.",
].join("\n");

const LIMITS = [
  "An operator may set the first of these and the JSON limits otherwise. A key may have limits of its own: requests and tokens per minute, tokens per",
  "day, generations at once, also per model (429), the size of bodies (413) and the length of answers (which is cut). A count of tokens",
  "counts against as many counts a minute as the key may have requests.",
].join("\n");

const RETENTION = [
  "Nothing of a request or an answer is kept, in no log, metric, file or error; memory has an open WebSocket's conversation, and engines' prompts for",
  "minutes, apart for each owner of keys. The service calls nothing: no webhooks, no address in a request is fetched.",
].join("\n");

const VERSION = [
  `The contract has the version ${CONTRACT_VERSION} (V0). Endpoints, optional fields, events, error codes and headers may be added without notice, and`,
  "clients have to ignore what they do not know; the promises here keep their meaning ([changelog](../../.github/CHANGELOG.md)). Chat and messages",
  "ignore unknown fields, responses refuse them.",
].join("\n");

const STRUCTURED = [
  "A JSON Schema stands in `response_format`, `output_config.format`, `text.format` or a tool. With `strict` every whole answer satisfies it, and one that cannot be",
  "promised is 400 with the place of the keyword; without it the answer keeps to as much as can be enforced ([keywords](../../engine/docs/structured-output.md)).",
].join("\n");

function endpoints(): string {
  const rows = ROUTES.flatMap(({ path, methods, operation, use }) => {
    if (operation === "probe" || operation === "health") return [];
    const endpoint = methods.map((method) => code(`${method} ${path}`)).join(", ");
    return [[endpoint, OPERATIONS[operation].summary, use === "none" ? "" : use, pageOf(path)]];
  });
  return table(["endpoint", "does", "counts as", "fields"], rows);
}

function pageOf(path: string): string {
  const found = ["chat", "messages", "responses"].find((name) => path.startsWith(`/v1/${name}`));
  if (found) return `[${found}](api-${found}.md)`;
  return path.startsWith("/v1/models") ? "[models](#models)" : "OpenAPI 3.1";
}

function headers(facts: readonly HeaderFact[]): string {
  return table(
    ["header", "where", "meaning"],
    facts.map(({ name, where, meaning }) => [code(name), where, meaning]),
  );
}

/** Writes the statuses, with all codes that have the same answer in both envelopes in one row. */
function errors(): string {
  const rows = new Map<string, { readonly cells: readonly string[]; readonly codes: string[] }>();
  for (const [name, answer] of Object.entries(ERROR_ANSWERS)) {
    const { status, a, b, bStatus = status, aCode = name } = answer;
    // Its type says which budget it is about.
    const type = name === "rate_limit_exceeded" ? "`requests` or `tokens`" : code(a);
    const ofMessages = [bStatus === status ? "" : String(bStatus), b === a ? "" : code(b)].filter(
      (part) => part !== "",
    );
    const cells = [String(status), type, ofMessages.join(" ")];
    const row = rows.get(cells.join()) ?? { cells, codes: [] };
    row.codes.push(code(aCode));
    rows.set(cells.join(), row);
  }
  return table(
    ["status", "`error.type`", "`error.code`", "messages, where it differs"],
    [...rows.values()]
      .sort((one, other) => Number(one.cells[0]) - Number(other.cells[0]))
      .map(({ cells: [status = "", a = "", ofMessages = ""], codes }) => [
        ...[status, a, [...new Set(codes)].join(", "), ofMessages],
      ]),
  );
}

const ERRORS = [
  'Chat, models and responses answer with envelope A, `{"error": {"message", "type", "param", "code"}}`; messages and their counts with',
  'envelope B, `{"type": "error", "error": {"type", "message"}, "request_id"}`. A names the field at fault in `param`, B at the beginning of',
  "the message. The page of [errors and outcomes](outcomes.md) says what each code means, and [what to do](outcomes.md#what-new-callers-meet-first) about the first five.",
].join("\n");

const RETRY = [
  "Worth another try: 408, 429, 500 and above, after `retry-after` where it is there and not where `x-should-retry` is `false`. A 429 ends with",
  "`Please try again in 1.5s.`. Nothing else becomes right by repetition. A stream that has begun has the status 200; what fails after that is",
  "an event, see the formats.",
].join("\n");

function streams(): string {
  const { keepAliveIntervalMs, maxStreamDurationMs, maxRequestDurationMs } = timeoutsSchema.parse({});
  return [
    `A stream is never silent for more than ${keepAliveIntervalMs / 1000} s: a sign of life fills the gap, in the form that clients of its format know. A`,
    `streamed answer may take ${maxStreamDurationMs / 60_000} minutes, one in a piece ${maxRequestDurationMs / 60_000}. Closing the connection ends the answer, and`,
    "the work for it. `HEAD /` and `HEAD /api/hello` answer 200 at once and without a key, for agents that look whether the service is there.",
  ].join("\n");
}

export function overviewPage(modelFields: readonly string[], sharedFields: readonly string[]): string {
  const parts = [
    "What the service takes and answers. One page for each format has all fields and events: [chat](api-chat.md) (Format A), [messages](api-messages.md) (Format B), [responses](api-responses.md).",
  ].join("\n");
  return page("API", "`gateway/reference/` and the tables of `deploy/docs/overview-page.ts`", [
    parts,
    ADDRESSES,
    "## Endpoints",
    endpoints(),
    "## Keys",
    KEYS,
    "## Models",
    MODELS,
    modelTable(),
    ...modelFields,
    "## The pages of the formats",
    PAGES,
    "## Shared fields",
    `Requests of several formats have these; each page names its own.\n\n${sharedFields.join("\n")}`,
    "## Images and files",
    UNREADABLE,
    "## Headers of requests",
    headers(REQUEST_HEADERS),
    "## Headers of replies",
    headers(REPLY_HEADERS),
    "## Streams and times",
    streams(),
    "## Limits",
    limitTable(),
    LIMITS,
    "## Errors",
    ERRORS,
    errors(),
    RETRY,
    "## Structured output",
    STRUCTURED,
    "## Retention, and calls to others",
    RETENTION,
    "## Version",
    VERSION,
  ]);
}
