import { describe, expect, test } from "vitest";
import { compiledSchemas } from "../../../../engine/backends/openai-compatible/request/compiled-schemas.ts";
import { EngineError } from "../../../../engine/errors.ts";
import { checkCompiledSchemas } from "../../../../engine/grammar/validation/compiled-schemas.ts";
import type { OutputConstraint } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Tool } from "../../../../proto/gen/svc/inference/v1/messages.ts";

const tool = (parametersJsonSchema: string, strict = false): Tool => ({
  ...{ name: "f", description: "", strict, cacheBreakpoint: undefined },
  parametersJsonSchema,
});
const answer = (schemaJson: string): OutputConstraint => ({
  kind: { $case: "jsonSchema", value: { name: "x", schemaJson, strict: false } },
});
const plan = (shown: readonly Tool[], mustCall: boolean) => ({ shown, callable: new Set(["f"]), mustCall });
const checkAsked = (...request: Parameters<typeof compiledSchemas>) =>
  checkCompiledSchemas(compiledSchemas(...request));
const nested = (levels: number) => `${'{"items":'.repeat(levels)}{}${"}".repeat(levels)}`;

function failureOf(check: () => void): EngineError {
  try {
    check();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("it was let through");
}

/** Schemas that crashed or blocked engines, with the reported position. */
const HARMFUL: readonly [what: string, schema: string, pointer: string][] = [
  ["an invalid type", '{"type":"something"}', "/type"],
  ["a type that is a number", '{"properties":{"a":{"type":5}}}', "/properties/a/type"],
  ["a type that is an object with a method's name", '{"type":[{"toString":1}]}', "/type"],
  ["an invalid expression", '{"type":"string","pattern":"["}', "/pattern"],
  ["an expression that is a number", '{"pattern":5}', "/pattern"],
  ["an invalid expression as a key", '{"patternProperties":{"(":{}}}', "/patternProperties"],
  ["an expression after a reference", '{"$ref":"#/x/y","x":{"y":{"pattern":"*"}}}', "/x/y/pattern"],
  ["an expression that is too long", JSON.stringify({ pattern: "a".repeat(1025) }), "/pattern"],
  ["counts in counts", '{"pattern":"^(((a{99}){99}){99})$"}', "/pattern"],
  ["a large count", '{"pattern":"a{1,1000000}"}', "/pattern"],
  ["a large count beside a look-ahead", '{"pattern":"(?=a)(b{9999}){9999}"}', "/pattern"],
  ["a reference to nothing", '{"$ref":"#/$defs/none"}', "/$ref"],
  ["a reference to itself", '{"$ref":"#"}', "/$ref"],
  ["a cycle of references", '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}', "/$defs/a/$ref"],
  ["a reference to another document", '{"$ref":"http://localhost/x"}', "/$ref"],
  ["bounds that are not numbers", '{"minLength":"1"}', "/minLength"],
  ["properties in a list", '{"properties":[1]}', "/properties"],
  ["an object of more than 8,000 schemas", JSON.stringify({ anyOf: Array.from({ length: 8001 }, () => ({})) }), ""],
  ["more than 48 levels", nested(56), "/items".repeat(48)],
  ["a hundred thousand levels", nested(5_000), ""],
];

describe("a harmful schema for an engine to compile is refused with the path of the field", () => {
  test.each(HARMFUL)("%s", (_what, schema, pointer) => {
    const ofAnswer = failureOf(() => checkAsked(plan([], false), answer(schema)));
    expect(ofAnswer).toMatchObject({
      reason: "INVALID_SCHEMA",
      facts: { field: "output_constraint.json_schema.schema_json", pointer },
    });
    const good = tool("{}");
    for (const check of [
      () => checkAsked(plan([good, tool(schema)], true), undefined),
      () => checkAsked(plan([good, tool(schema, true)], false), undefined),
    ])
      expect(failureOf(check)).toMatchObject({ facts: { field: "tools[1].parameters_json_schema", pointer } });
  });

  test("one that is too long, and many that are too long together", () => {
    const long = (bytes: number) => JSON.stringify({ description: "x".repeat(bytes) });
    const field = "output_constraint.json_schema.schema_json";
    expect(failureOf(() => checkAsked(plan([], false), answer(long(262_144)))).facts).toEqual({
      field,
      max_bytes: "262144",
    });
    const many = Array.from({ length: 20 }, () => tool(long(60_000)));
    expect(failureOf(() => checkAsked(plan(many, true), undefined)).message).toContain("tools[8]");
  });

  test("a tool by its index in the request, although the engine receives only some tools", () => {
    const bad = tool('{"type":1}', true);
    const all = [tool("{}"), tool("{}"), bad];
    expect(failureOf(() => checkAsked(plan([bad], false), undefined, all))).toMatchObject({
      facts: { field: "tools[2].parameters_json_schema" },
    });
  });

  test("text that is not JSON", () => {
    expect(failureOf(() => checkAsked(plan([tool("{")], true), undefined)).reason).toBe("INVALID_SCHEMA");
  });
});

test.each(HARMFUL)("%s is allowed if the model only sees it", (_what, schema) => {
  checkAsked(plan([tool(schema)], false), undefined);
  // A mandatory call is a constraint of its own: the answer's schema is not sent.
  checkAsked(plan([tool("{}")], true), answer(schema));
});

test.each([
  ['{"type":["string","null"],"pattern":"^(?!x)\\\\p{L}{1,100}\\\\b$","maxLength":1000000}'],
  ['{"properties":{"pattern":{"type":"string"},"type":{"enum":[{"pattern":"("}]}},"default":{"type":"none"}}'],
  ['{"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}'],
  ['{"patternProperties":{"^x-":{}},"additionalProperties":false}'],
])("an honest schema is sent: %s", (schema) => {
  checkAsked(plan([tool(schema, true)], true), undefined);
  checkAsked(plan([], false), answer(schema));
});
