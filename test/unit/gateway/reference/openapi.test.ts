import { expect, test } from "vitest";
import { openApiDocument } from "../../../../gateway/reference/openapi.ts";
import { ROUTES } from "../../../../gateway/routes.ts";

const DOCUMENT = openApiDocument(["svc-a", "svc-b"]);
const SCHEMAS = DOCUMENT.components.schemas;
const NAMES = Object.keys(SCHEMAS);

/** The names of the schemas that a part of the document refers to. */
function referred(part: unknown): readonly string[] {
  return [...JSON.stringify(part).matchAll(/"\$ref":"#\/components\/schemas\/([^"]*)"/g)].map(([, name = ""]) => name);
}

/** Every schema within a schema, with the description of its position. */
function* fieldsOf(node: unknown, at: string): Generator<readonly [string, unknown]> {
  if (typeof node !== "object" || node === null) return;
  if ("properties" in node && typeof node.properties === "object" && node.properties !== null)
    for (const [key, field] of Object.entries(node.properties)) yield [`${at}.${key}`, field];
  for (const [key, child] of Object.entries(node)) yield* fieldsOf(child, `${at}.${key}`);
}

test("every route but the probes is in it, with its first method, and no other", () => {
  const listed = ROUTES.filter(({ operation }) => operation !== "probe" && operation !== "health").map(
    ({ path, methods }) => [path, methods[0].toLowerCase()],
  );
  const written = Object.entries(DOCUMENT.paths).map(([path, item]) => [path, ...Object.keys(item)]);
  expect(written).toEqual(listed);
});

test("every reference leads to a schema, and every schema is referred to", () => {
  const used = new Set([...referred(DOCUMENT.paths), ...referred(SCHEMAS)]);
  expect([...used].filter((name) => !(name in SCHEMAS))).toEqual([]);
  expect(NAMES.filter((name) => !used.has(name))).toEqual([]);
});

test("every header that a reply refers to is described, and every described one referred to", () => {
  const headers = JSON.stringify(DOCUMENT.paths).matchAll(/"\$ref":"#\/components\/headers\/([^"]*)"/g);
  const used = new Set([...headers].map(([, name]) => name));
  expect([...used].sort()).toEqual(Object.keys(DOCUMENT.components.headers).sort());
  expect([...used]).toEqual(
    expect.arrayContaining(["x-request-id", "retry-after-ms", "anthropic-ratelimit-tokens-reset"]),
  );
  expect(DOCUMENT.paths["/v1/chat/completions"]?.post).toMatchObject({
    responses: { 200: { headers: { "x-ratelimit-remaining-tokens": {} } }, 429: { headers: { "retry-after": {} } } },
  });
});

test("every field has a description, and every named schema", () => {
  const silent = NAMES.flatMap((name) => [...fieldsOf(SCHEMAS[name], name)]).filter(
    ([, field]) => !JSON.stringify(field).includes('"description"') && referred(field).length === 0,
  );
  expect(silent.map(([path]) => path)).toEqual([]);
  expect(NAMES.filter((name) => !SCHEMAS[name]?.description)).toEqual([]);
});

test("every operation has a name of its own, answers, and the parameters of its path", () => {
  const operations = Object.entries(DOCUMENT.paths).flatMap(([path, item]) =>
    Object.values(item).map((operation) => ({ path, ...(operation as Record<string, unknown>) })),
  );
  const ids = operations.map((operation) => Reflect.get(operation, "operationId"));
  expect(new Set(ids).size).toBe(ids.length);
  for (const operation of operations) {
    expect(operation).toMatchObject({ summary: expect.stringMatching(/\.$/), responses: { default: {} } });
    // The document itself asks for no key.
    const codes = Object.keys(Reflect.get(operation, "responses") as object);
    expect(codes.includes("401")).toBe(operation.path !== "/openapi.json");
    const tags = DOCUMENT.tags.map(({ name }) => name as string);
    expect(tags).toEqual(expect.arrayContaining(Reflect.get(operation, "tags") as string[]));
    const parameters: unknown = Reflect.get(operation, "parameters") ?? [];
    const named = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const inPath = (parameters as { in: string; name: string }[]).filter((parameter) => parameter.in === "path");
    expect(inPath.map(({ name }) => name)).toEqual(named);
  }
});

test("chat and messages only accept the models of the service", () => {
  for (const name of ["ChatRequest", "MessagesRequest", "CountTokensRequest"])
    expect(SCHEMAS[name]).toMatchObject({ properties: { model: { enum: ["svc-a", "svc-b"] } } });
  expect(SCHEMAS.ResponsesRequest).toMatchObject({ additionalProperties: false });
  expect(JSON.stringify(SCHEMAS.ResponsesRequest)).not.toContain("svc-a");
});
