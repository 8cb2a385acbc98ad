import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CATALOG } from "../../gateway/catalog.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { openApiDocument } from "../../gateway/reference/openapi.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { CONTEXT } from "../support/events/encoding-context.ts";
import { parseJsonBody } from "../support/gateway/parse-json-body.ts";
import { PublishedContract } from "../support/schemas/published-contract.ts";

/* The same conversation in each format becomes the same canonical request, and is one that the document accepts. */

const FOLDER = join(import.meta.dirname, "requests");

const DOCUMENT = openApiDocument(CATALOG.map(({ id }) => id));
const contract = new PublishedContract(DOCUMENT);
const PATHS: Readonly<Record<string, string>> = {
  ...{ chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" },
};

describe.each(readdirSync(FOLDER))("request %s", (scenario) => {
  test.each([chat, messages, responses])("a request means the same as $name", async (format) => {
    const body = parseJsonBody(readFileSync(join(FOLDER, scenario, `${format.name}.json`)));
    const { model, request } = format.prepare(body, CONTEXT);
    expect(model).toBe(request.model);
    const canonical = GenerateRequest.toJSON(GenerateRequest.fromPartial(request));
    const text = `${JSON.stringify(canonical, undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(join(FOLDER, scenario, "generate-request.json"));
    const path = PATHS[format.name] ?? "";
    expect(contract.takes(path, body)).toBe(true);
    expect(contract.takes(path, { ...body, model: 1 })).toBe(false);
  });
});

test.each(Object.entries(DOCUMENT.paths))("the example of %s is a request that it takes", (path, item) => {
  const example = (item.post as Operation | undefined)?.requestBody?.content["application/json"].example;
  if (example !== undefined) expect(contract.takes(path, example)).toBe(true);
  expect(example === undefined).toBe(item.post === undefined);
});

type Operation = {
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly example: object } } };
};

const SCHEMA = '{"type":"object","properties":{"2":{"default":-0},"a":{"minimum":1.0}}}';

test.each([
  [
    "a group of tools",
    responses,
    `"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":${SCHEMA}}]}]`,
  ],
  [
    "output_format",
    messages,
    `"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"output_format":{"type":"json_schema","schema":${SCHEMA}}`,
  ],
])("the schema in %s keeps its numbers", (_, format, fields) => {
  const { request } = format.prepare(parseJsonBody(Buffer.from(`{"model":"svc-qwen",${fields}}`)), CONTEXT);
  const kind = request.outputConstraint?.kind;
  const written = kind?.$case === "jsonSchema" ? kind.value.schemaJson : request.tools[0]?.parametersJsonSchema;
  expect(written).toBe(SCHEMA);
});
