import { describe, expect, test } from "vitest";
import {
  argumentsText,
  isJsonObject,
  jsonText,
  keepNumbers,
  parseArguments,
} from "../../../../gateway/json/json-text.ts";
import { withNumbersQuoted } from "../../../../gateway/json/json-tokens.ts";
import { type JsonSample, objectSample } from "../../../support/schemas/json-samples.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

/** The parsed text, whose numbers are kept. */
function parsed(text: string) {
  const value = JSON.parse(text);
  keepNumbers(value, JSON.parse(withNumbersQuoted(Buffer.from(text))));
  return value;
}

/** Checks that every object and array in `value` is written as the caller wrote it. */
function expectExact(value: unknown, { canonical, inner, text }: JsonSample): void {
  if (typeof value !== "object" || value === null) return;
  expect(jsonText(value as object as never), text).toBe(canonical);
  for (const [key, sample] of inner) expectExact(Reflect.get(value, key), sample);
}

describe("JSON text", () => {
  test("keeps the keys in the order of the parsed value and adds no white space", () => {
    const text = '{"b":1,"a":{"z":[1.5,null,true],"y":"\\n"}}';
    expect(jsonText(JSON.parse(text))).toBe(text);
  });

  test("keeps a key named __proto__ as plain data", () => {
    const text = '{"__proto__":{"polluted":true}}';
    expect(jsonText(JSON.parse(text))).toBe(text);
  });

  test("is the caller's text in canonical form, for any text and every value in it", () => {
    const random = new SeededRandom(7);
    for (let round = 0; round < 2_000; round += 1) {
      const sample = objectSample(random, 4);
      const value = parsed(sample.text);
      expectExact(value, sample);
      expect(JSON.parse(jsonText(value)), sample.text).toEqual(value);
    }
  });

  test("of a value without kept numbers matches JSON.stringify", () => {
    expect(jsonText(JSON.parse('{"b":1.0,"1":2}'))).toBe('{"1":2,"b":1}');
  });

  test.each([
    ['{"a":1.0,"a":1}', '{"a":1}'],
    ['{"a":{"b":1.0},"a":[2.0]}', '{"a":[2.0]}'],
    ['{"a":0,"b":2,"a":1.0}', '{"a":1.0,"b":2}'],
    ['{"a":"1.0","b":[true,1.0,"-0",false,-0]}', '{"a":"1.0","b":[true,1.0,"-0",false,-0]}'],
    [String.raw`{"\"1.0":1.0,"b":9007199254740993}`, String.raw`{"\"1.0":1.0,"b":9007199254740993}`],
    ['{"é":"ü1.0","😀":1E3}', '{"é":"ü1.0","😀":1E3}'],
  ])("of %s is %s", (text, expected) => {
    expect(jsonText(parsed(text))).toBe(expected);
  });

  test("follows changes of strings in the value", () => {
    const value = parsed('{"b":["x",1.0],"1":"y"}');
    value.b[0] = "z";
    expect(jsonText(value)).toBe('{"1":"y","b":["z",1.0]}');
  });

  test.each([
    ["{}", {}],
    ["", {}],
    ['{"a":[1]}', { a: [1] }],
    ["[1]", undefined],
    ["null", undefined],
    ['"x"', undefined],
    ["not json", undefined],
    ['{"a":', undefined],
  ])("reads the arguments text %j as %j", (text, expected) => {
    expect(parseArguments(text)).toEqual(expected);
  });

  test("reads arguments of at most a thousand levels, whatever brackets are in their texts", () => {
    const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
    expect(parseArguments(nested(1000))).toBeDefined();
    expect(parseArguments(nested(1001))).toBeUndefined();
    expect(parseArguments(nested(100_000))).toBeUndefined();
    expect(parseArguments(JSON.stringify({ a: `${"[{".repeat(5000)}\\"` }))).toBeDefined();
    expect(parseArguments(JSON.stringify({ a: Array.from({ length: 5000 }, () => [{}]) }))).toBeDefined();
  });

  test("passes arguments on unchanged, and no text as no arguments", () => {
    expect(argumentsText("not json")).toBe("not json");
    expect(argumentsText('{ "a" : 1 }')).toBe('{ "a" : 1 }');
    expect(argumentsText("")).toBe("{}");
  });

  test.each([
    [{}, true],
    [[], false],
    [null, false],
    ["x", false],
    [undefined, false],
  ])("decides whether %j is an object", (value, expected) => {
    expect(isJsonObject(value)).toBe(expected);
  });
});
