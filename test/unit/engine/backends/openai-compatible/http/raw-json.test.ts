import { expect, test } from "vitest";
import { rawObject, toJsonText } from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";

test("raw text stays as it is among values that are written", () => {
  const raw = rawObject('{ "b": 1.0, "a": 12345678901234567890, "b": 2 }');
  expect(toJsonText({ list: [raw, null, "é\n"], gone: undefined, on: true })).toBe(
    '{"list":[{ "b": 1.0, "a": 12345678901234567890, "b": 2 },null,"é\\n"],"on":true}',
  );
});

test.each(["", "[]", "1", '{"a":1', '{"a":1}}', '{"a":1},"model":"x"', "{} {}"])("%j is no object", (text) => {
  expect(rawObject(text)).toBeUndefined();
});
