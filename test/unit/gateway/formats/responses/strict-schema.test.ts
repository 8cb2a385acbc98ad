import { expect, test } from "vitest";
import { responses } from "../../../../../gateway/formats/responses/request.ts";
import { CONTEXT } from "../../../../support/events/encoding-context.ts";

const closed = (properties: object, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

function isStrict(parameters: unknown): boolean | undefined {
  const tools = [{ type: "function", name: "f", parameters }];
  return responses.prepare({ model: "svc-qwen", input: "hi", tools }, CONTEXT).request.tools[0]?.strict;
}

test.each([
  [closed({})],
  [closed({ a: { type: "string", description: "d" }, b: { enum: [1, 2] } })],
  [closed({ a: { type: "array", items: closed({ b: { type: ["string", "null"] } }) } })],
  [closed({ a: { anyOf: [{ type: "null" }, closed({ b: { const: 1 } })] } })],
])("%j is strict without saying so", (schema) => {
  expect(isStrict(schema)).toBe(true);
});

test.each([
  [undefined],
  [null],
  [{ type: "object", properties: {} }],
  [{ ...closed({}), additionalProperties: true }],
  [{ ...closed({}), type: "string" }],
  [closed({ a: { type: "string" } }, [])],
  [closed({ a: { type: "string", pattern: "x" } })],
  [closed({ a: { type: "object" } })],
  [closed({ a: { type: ["object", "null"] } })],
  [closed({ a: { items: { type: "object", properties: {} } } })],
  [closed({ a: { anyOf: [{ properties: {} }] } })],
  [closed({ a: { anyOf: {} } })],
  [closed({ a: true })],
])("%j is not", (schema) => {
  expect(isStrict(schema)).toBe(false);
});
