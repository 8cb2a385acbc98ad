import { expect, test } from "vitest";
import { head, prepare, refusal } from "./prepared-request.ts";

const schema = { type: "object", properties: { ok: { type: "boolean" } } };
const constraint = (format: unknown) => prepare({ text: { format } }).request.outputConstraint?.kind;

test.each([
  [{}, false],
  [{ strict: null, description: null }, false],
  [{ strict: false, description: "d" }, false],
  [{ strict: true }, true],
])("a schema with %j has strict %s", (more, strict) => {
  expect(constraint({ type: "json_schema", name: "n", schema, ...more })).toEqual({
    $case: "jsonSchema",
    value: { name: "n", schemaJson: JSON.stringify(schema), strict },
  });
});

test("the reply repeats the format, but not the verbosity, which has no effect", () => {
  const format = { type: "json_schema", name: "n", schema, strict: true };
  const echoed = (text: object) => {
    const data = /data: (.+)/.exec(prepare({ text }).encoder(head).keepAlive())?.[1] ?? "";
    return JSON.parse(data).response.text;
  };
  expect(echoed({ format, verbosity: "low" })).toEqual({ format: { ...format, description: null } });
  expect(echoed({})).toEqual({ format: { type: "text" } });
  expect(echoed({ format: { type: "json_object" } }).format).toEqual({ type: "json_object" });
});

test.each([
  [{}, "missing_required_parameter", "text.format.type"],
  [{ type: "json_schema", json_schema: { name: "n", schema } }, "missing_required_parameter", "text.format.name"],
  [{ type: "json_object", name: "n" }, "unknown_parameter", "text.format.name"],
  [{ type: "json_schema", name: "a b", schema }, "invalid_value", "text.format.name"],
  [
    { type: "json_schema", name: "n", schema: { $ref: "https://example.com" } },
    "invalid_json_schema",
    "text.format.schema",
  ],
])("%j is refused", (format, code, path) => {
  expect(refusal({ text: { format } }).slice(0, 2)).toEqual([code, path]);
});
