import { expect, test } from "vitest";
import { strictCompatible } from "../../../../../gateway/formats/responses/tools.ts";

const closed = (properties: object, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

test.each([
  [closed({})],
  [closed({ a: { type: "string", description: "d" }, b: { enum: [1, 2] } })],
  [closed({ a: { type: "array", items: closed({ b: { type: ["string", "null"] } }) } })],
  [closed({ a: { anyOf: [{ type: "null" }, closed({ b: { const: 1 } })] } })],
])("%j is strict without saying so", (schema) => {
  expect(strictCompatible(schema)).toBe(true);
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
  expect(strictCompatible(schema)).toBe(false);
});

test("very many properties are looked up by key, not searched", () => {
  const names = Array.from({ length: 12_000 }, (_, index) => `property ${index}`);
  const required = Object.assign([...names], {
    includes: () => {
      throw new Error("searched");
    },
  });
  expect(strictCompatible(closed(Object.fromEntries(names.map((name) => [name, { type: "string" }])), required))).toBe(
    true,
  );
});
