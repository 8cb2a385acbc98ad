import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CATALOG } from "../../gateway/catalog.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import { CHAT_UNTAKEN } from "../../gateway/formats/chat/schema.ts";
import { ERROR_ANSWERS } from "../../gateway/formats/error-envelope.ts";
import {
  MAX_CACHE_KEY_LENGTH,
  MAX_LOGIT_BIAS,
  MAX_MESSAGES,
  MAX_STOP_LENGTH,
  MAX_STOP_STRINGS,
} from "../../gateway/formats/fields.ts";
import { MESSAGES_UNTAKEN } from "../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../gateway/formats/request-body.ts";
import { MAX_CLIENT_METADATA_BYTES, MAX_METADATA, RESPONSES_UNTAKEN } from "../../gateway/formats/responses/schema.ts";
import { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_STRICT_SCHEMA_BYTES, MAX_TOOLS } from "../../gateway/formats/tools.ts";
import { MAX_HEADER_FIELDS } from "../../gateway/http/access/request-head.ts";
import { MAX_HEADER_BYTES } from "../../gateway/http/connection/public-app.ts";
import { MAX_JSON_DEPTH, MAX_JSON_NODES } from "../../gateway/json/json-body.ts";
import { type HeaderFact, REPLY_HEADERS, REQUEST_HEADERS } from "../../gateway/reference/headers.ts";
import { OPERATIONS } from "../../gateway/reference/openapi.ts";
import { ROUTES } from "../../gateway/routes.ts";
import { timeoutsSchema } from "../../gateway/upstream/call/timeouts.ts";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { code, table } from "./markdown.ts";

export const API_PAGE = "gateway/docs/api.md";

/** A line that names a table, and the table below it. */
const TABLE = /^<!-- ([\w ]+): written by `npm run docs` -->\n(?:\|.*\n)*/gm;

/** Returns the page of the API with its tables made anew. Throws for a table of a name that there is not. */
export function apiPage(): string {
  const tables: Readonly<Record<string, string>> = {
    endpoints: endpoints(),
    models: models(),
    "refused fields": untaken(),
    "headers of requests": headers(REQUEST_HEADERS),
    "headers of replies": headers(REPLY_HEADERS),
    limits: limits(),
    errors: errors(),
  };
  return readFileSync(join(projectFolder(), API_PAGE), "utf8").replaceAll(TABLE, (block, name: string) => {
    const text = tables[name];
    if (text === undefined) throw new Error(`${API_PAGE}: no table ${name}`);
    return `${block.slice(0, block.indexOf("\n"))}\n${text}\n`;
  });
}

const many = (count: number) => count.toLocaleString("en-US");
const bytes = (count: number) => (count >= 2 ** 20 ? `${count / 2 ** 20} MiB` : `${count / 2 ** 10} KiB`);

function limits(): string {
  const { pairs, keyLength, valueLength } = MAX_METADATA;
  const { keepAliveIntervalMs, maxStreamDurationMs, maxRequestDurationMs } = timeoutsSchema.parse({});
  const schema = `${bytes(MAX_SCHEMA_BYTES)}, ${MAX_SCHEMA_DEPTH} levels with those of the body around it (60 in a tool of chat), no reference to elsewhere`;
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
      ["one JSON Schema", schema, "400"],
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
      ["silence on a stream", `${keepAliveIntervalMs / 1000} s`, "a sign of life"],
      ["a streamed answer", `${maxStreamDurationMs / 60_000} minutes`, "its end"],
      ["an answer in one piece", `${maxRequestDurationMs / 60_000} minutes`, "its end"],
    ],
  );
}

/** Sizes and strengths of the models of the catalog. */
const FACTS: Readonly<Record<string, readonly [size: string, good: string]>> = {
  "svc-glm53": ["744B, sparse mixture of experts", "coding agents: the default choice"],
  "svc-kimik3": ["2.8T mixture of experts, about 50B active", "much reasoning, images"],
  "svc-qwen": ["27B, dense", "quick answers"],
  "svc-minimax": ["230B mixture of experts", "long work without a person"],
  "svc-dsv4flash": ["not published", "fast code, reasoning and use of tools"],
};

function models(): string {
  const rows = CATALOG.map(({ id, contextWindow }) => {
    const facts = FACTS[id];
    if (!facts) throw new Error(`no facts about the model ${id}`);
    const short = contextWindow >= 2 ** 20 ? `${contextWindow / 2 ** 20}M` : `${contextWindow / 2 ** 10}K`;
    return [code(id), `${short} (${many(contextWindow)})`, ...facts];
  });
  return table(["model", "window in tokens", "size", "good for"], rows);
}

function endpoints(): string {
  const rows = ROUTES.flatMap(({ path, methods, operation, use }) => {
    if (operation === "probe" || operation === "health") return [];
    const { summary, request } = OPERATIONS[operation];
    const schema = code(String(request?.meta()?.id ?? ""));
    return [
      [methods.map((method) => code(`${method} ${path}`)).join(", "), summary, use === "none" ? "" : use, schema],
    ];
  });
  return table(["endpoint", "does", "counts as", "schema of the body"], rows);
}

function headers(facts: readonly HeaderFact[]): string {
  return table(
    ["header", "where", "meaning"],
    facts.map(({ name, where, meaning }) => [code(name), where, meaning]),
  );
}

/** Writes the fields that are refused or ignored, with all of a format that have the same reason in one row. */
function untaken(): string {
  const rows = new Map<string, { readonly facts: readonly string[]; readonly names: string[] }>();
  const formats = { chat: CHAT_UNTAKEN, messages: MESSAGES_UNTAKEN, responses: RESPONSES_UNTAKEN };
  for (const [format, fields] of Object.entries<readonly UntakenField[]>(formats))
    for (const { field, becomes, neutral = [], why } of fields) {
      const facts = [format, becomes, why];
      const row = rows.get(facts.join()) ?? { facts, names: [] };
      const values = neutral.map((value) => code(JSON.stringify(value))).join(", ");
      row.names.push(values === "" ? code(field) : `${code(field)} (${values})`);
      rows.set(facts.join(), row);
    }
  return table(
    ["format", "fields", "become", "why"],
    [...rows.values()].map(({ facts: [format = "", ...rest], names }) => [format, names.join(", "), ...rest]),
  );
}

/** Writes the statuses, with all codes that have the same answer in both envelopes in one row. */
function errors(): string {
  const rows = new Map<string, { readonly cells: readonly string[]; readonly codes: Set<string> }>();
  for (const [name, { status, a, b, bStatus = status, aCode = name }] of Object.entries(ERROR_ANSWERS)) {
    // Its type says which budget it is about.
    const type = name === "rate_limit_exceeded" ? "`requests` or `tokens`" : code(a);
    const ofMessages = [bStatus === status ? "" : String(bStatus), b === a ? "" : code(b)].join(" ").trim();
    const cells = [String(status), type, ofMessages];
    const row = rows.get(cells.join()) ?? { cells, codes: new Set() };
    row.codes.add(code(aCode));
    rows.set(cells.join(), row);
  }
  return table(
    ["status", "`error.type`", "`error.code`", "messages, where it differs"],
    [...rows.values()]
      .toSorted((one, other) => Number(one.cells[0]) - Number(other.cells[0]))
      .map(({ cells: [status = "", a = "", ofMessages = ""], codes }) => [
        status,
        a,
        [...codes].join(", "),
        ofMessages,
      ]),
  );
}
