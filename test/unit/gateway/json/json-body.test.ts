import { describe, expect, test } from "vitest";
import { BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { scanBody } from "../../../../gateway/json/json-body.ts";
import { argumentsText, jsonText, parseArguments } from "../../../../gateway/json/json-text.ts";
import { parseJsonBody } from "../../../support/gateway/parse-json-body.ts";

const parse = (text: string) => parseJsonBody(Buffer.from(text));
const scan = (text: string) => scanBody(Buffer.from(text), ["model", "messages", "stream", "max_tokens", "input"]);

const fault = (code: string, detail: string) => expect.objectContaining({ code, detail });

test.each([
  [JSON.stringify({ model: "m", content: "hé€😀\u2028\u0000", n: -1.5e3, ok: null }, null, "\t")],
  [" {} \n"],
  ['\ufeff{"a":1}'],
])("parses every object that JSON.parse accepts, and skips a byte order mark: %j", (text) => {
  expect(parse(text)).toEqual(JSON.parse(text.replace("\ufeff", "")));
});

describe("bodies that are refused as invalid_json", () => {
  test.each([
    ...["", "   ", "\ufeff", "\ufeff\ufeff{}", '{"a":', '{"a":1}x', '{"a":1}{}', "{'a':1}", '{"a":1,}', '{"a":NaN}'],
    ...['{"a":Infinity}', '{"a":1/*c*/}', '{"a":"\n"}', '{"a":01}', '{"a":"\\x"}', "{a:1}", "nul", "}", "]]]]{", '"'],
    ...['"\\', "{]", "\\", '{"a', "-", ","],
  ])("a body that is no JSON is refused as invalid_json: %j", (text) => {
    expect(() => parse(text)).toThrow(fault("invalid_json", "json_syntax"));
  });

  test.each([
    ["a byte that is never UTF-8", [0x22, 0xff, 0x22]],
    ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
    ["a sequence that is cut", [0x22, 0xe2, 0x82, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a code point too high", [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
    ["UTF-16", [...Buffer.from('\ufeff{"a":1}', "utf16le")]],
  ])("a body with %s is refused as invalid_json", (_, bytes) => {
    const body = Buffer.concat([Buffer.from('{"a":'), Buffer.from(bytes), Buffer.from("}")]);
    expect(() => parseJsonBody(body)).toThrow(fault("invalid_json", "json_not_utf8"));
  });
});

describe("bodies that are refused as bad_request", () => {
  test.each(["[]", "null", '"x"', "3", "true", '[{"a":1}]'])("a root that is not an object: %s", (text) => {
    expect(() => parse(text)).toThrow(fault("bad_request", "json_not_an_object"));
  });

  test.each([
    ["1e999", "json_number_not_finite"],
    ["[1E400]", "json_number_not_finite"],
    ["1".repeat(310), "json_number_not_finite"],
    ["0".repeat(5000), "json_number_not_finite"],
    [`0.${"1".repeat(1_000)}`, "json_number_not_finite"],
    [String.raw`{"\ud800":1}`, "json_key_not_unicode"],
  ])("a body that is the value %s is refused as bad_request", (value, detail) => {
    expect(() => parse(`{"a":${value}}`)).toThrow(fault("bad_request", detail));
  });

  test.each(["1e308", "-1.7976931348623157e308", "1e-999", "1".repeat(309), `0.${"1".repeat(900)}`, '"1e999"'])(
    "but not %s",
    (value) => {
      expect(parse(`{"a":${value}}`)).toEqual({ a: JSON.parse(value) });
    },
  );

  test.each(["[", '{"a":', '[{"a":'])("65 levels of %s, but not 64", (open) => {
    const levels = open.split(/[[{]/).length - 1;
    expect(scan(open.repeat(64 / levels)).nodes).toBe(64);
    expect(() => scan(`${open.repeat(64 / levels)}[`)).toThrow(fault("bad_request", "json_depth"));
    expect(() => scan(open.repeat(1_000_000))).toThrow(/nested more deeply than 64 levels/);
  });

  test.each(["{},", "0,", '"",', "null,", "[],"])("200,001 values of %s, but not 200,000", (item) => {
    const list = `[${item.repeat(199_999)}`;
    expect(scan(list).nodes).toBe(200_000);
    expect(() => scan(`${list}1`)).toThrow(fault("bad_request", "json_nodes"));
  });

  test.each([
    ["model", '{"model":"a","x":[{"model":1}],"model":"b"}'],
    ["messages", '{"messages":[],"x":{},"messages":[]}'],
    ["stream", '{"stream":true, "stream" :false}'],
    ["max_tokens", String.raw`{"max_tokens":1,"\u006d\u0061\u0078\u005f\u0074\u006f\u006b\u0065\u006e\u0073":2}`],
    ["model", String.raw`{"model":"a","mod\u0065l":"b"}`],
  ])("a second %s at the top: %s", (key, text) => {
    expect(() => scan(text)).toThrow(expect.objectContaining({ path: [key], detail: "json_duplicate_key" }));
  });

  test.each([
    '{"model":"a","messages":[{"model":"b","messages":[]},{"model":"c"}]}',
    '{"a":"model","b":"model","model":"model"}',
    '{"temperature":1,"temperature":2}',
    String.raw`{"model":1,"Model":2,"model ":3,"models":4,"model\u0000":5}`,
  ])("no other repetition is refused: %s", (text) => {
    expect(() => parse(text)).not.toThrow();
  });
});

test.each([
  ...['{"a":"CANARY', "CANARY", '{"CANARY":1e999}', '{"a":CANARY}', '["CANARY"]'],
  ...['{"CANARY":1,"model":"CANARY","model":"CANARY"}', String.raw`{"CANARY\ud800":1}`],
])("repeats nothing of the body: %s", (text) => {
  let thrown: unknown;
  try {
    parse(text);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(Error);
  expect((thrown as Error).cause).toBeUndefined();
  expect(JSON.stringify(thrown) + String(thrown)).not.toContain("CANARY");
});

/** The number of values, as the parser finds them. */
function valuesIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, inner) => sum + valuesIn(inner), 1);
}

test.each([
  ...['""', "-0.5e+10", " [ ] ", "[1,-2.5,3e8,true,false,null]", '{"a":{"b":{"c":[1,{"d":"e"}]}},"f":"g"}'],
  ...['["]","}","[{",",,,",":"]', '{"{":"}","[":["]"]}', String.raw`["\"","\\","\\\"","\\\\","a\"b,[c"]`],
  String.raw`{"a\"b":{"c\\":[1]}}`,
  JSON.stringify(["x".repeat(47), "x".repeat(48), "x".repeat(49), "y".repeat(500)]),
  JSON.stringify([`${"x".repeat(46)}"[`, `${"x".repeat(47)}"[`, `${"x".repeat(48)}"[`, `${"x".repeat(49)}"[`]),
  JSON.stringify(["\\".repeat(23), "\\".repeat(24), "\\".repeat(25), `${"\\".repeat(60)}"[`, `${"\\".repeat(61)}"[`]),
  JSON.stringify([`${"x".repeat(100)}\\`, `${"x".repeat(100)}\\"[`, '"'.repeat(200), "]"]),
  JSON.stringify(["é€😀,[{", { "ключ,{": "\u2028[" }]),
])("counts the values as the parser finds them: %s", (text) => {
  expect(scan(text).nodes).toBe(valuesIn(JSON.parse(text)));
});

describe("keys such as __proto__", () => {
  test.each([
    '{"__proto__":{"polluted":1}}',
    String.raw`{"\u005f_proto__":{"polluted":1}}`,
    '{"constructor":{"prototype":{"polluted":1}}}',
    String.raw`{"__proto__":{"polluted":"\ud800"}}`,
  ])("a key such as __proto__ stays plain data: %s", (text) => {
    const body = parse(text);
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
    expect(JSON.stringify(body)).toBe(JSON.stringify(JSON.parse(text)).replaceAll("\\ud800", "\ufffd"));
    expect("polluted" in body || "polluted" in {}).toBe(false);
  });
});

test.each([
  [String.raw`{"a":"x\ud800","b":["\udc00y",{"c":"\uD83Dz"}]}`, { a: "x\ufffd", b: ["\ufffdy", { c: "\ufffdz" }] }],
  [String.raw`{"a":"\ud83d\ude00","b":"\\ud83d","😀":"😀"}`, { a: "😀", b: String.raw`\ud83d`, "😀": "😀" }],
])("lone surrogates become U+FFFD in values, and pairs stay: %s", (text, expected) => {
  expect(parse(text)).toEqual(expected);
});

describe("the text of a value of the body", () => {
  /** The text of the object at the place of a schema or of arguments. */
  const textOf = (json: string, beside = "") => {
    const body = parse(`{"temperature":1.0,"tools":[{"input_schema":${json}}${beside}]}`);
    const { tools } = body as { tools: [{ input_schema: object }] };
    return jsonText(tools[0].input_schema as never);
  };

  test.each([
    ['{"a":1.0,"a":1}', '{"a":1}'],
    ['{"a":{"b":1.0},"a":[2.0]}', '{"a":[2.0]}'],
    ['{"a":0,"1":2,"a":1.0}', '{"1":2,"a":1.0}'],
    ['{"a":"1.0","b":[true,1.0,"-0",false,-0]}', '{"a":"1.0","b":[true,1.0,"-0",false,-0]}'],
    [String.raw`{"\"1.0":1.0,"b":9007199254740993}`, String.raw`{"\"1.0":1.0,"b":9007199254740993}`],
    ['{"é":"ü1.0","😀":1E3}', '{"é":"ü1.0","😀":1E3}'],
    [String.raw`{"b":1.0,"a":["\ud800",{"2":"x\udc00"}]}`, '{"b":1.0,"a":["\ufffd",{"2":"x\ufffd"}]}'],
    ['{"b":0,"__proto__":{"1":{"x":1.0}},"constructor":{"0":-0}}', ""],
  ])("the text of the value %s of a body is %s", (text, expected) => {
    expect(textOf(text)).toBe(expected || text);
  });

  test("the text of a value of the body is the same whatever else the body holds", () => {
    const schema = String.raw`{"b":"\u0041","a":[ 1 ],"a":[ 2 ]}`;
    expect(textOf(schema)).toBe('{"b":"A","a":[2]}');
    expect(textOf(schema, ',{"input_schema":{"1":1.0}}')).toBe('{"b":"A","a":[2]}');
  });
});

describe("arguments", () => {
  test.each([
    ["{}", {}],
    ["", {}],
    ['{"a":[1]}', { a: [1] }],
    ["[1]", undefined],
    ["null", undefined],
    ["not json", undefined],
    ['{"a":', undefined],
  ])("arguments of the text %j are read as %j", (text, expected) => {
    expect(parseArguments(text)).toEqual(expected);
  });

  test("arguments have at most a thousand levels, whatever brackets are in their texts", () => {
    const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
    expect(parseArguments(nested(1000))).toBeDefined();
    expect(parseArguments(nested(1001))).toBeUndefined();
    expect(parseArguments(nested(100_000))).toBeUndefined();
    expect(parseArguments(JSON.stringify({ a: `${"[{".repeat(5000)}\\"` }))).toBeDefined();
    expect(parseArguments(JSON.stringify({ a: Array.from({ length: 5000 }, () => [{}]) }))).toBeDefined();
  });

  test("arguments are passed on unchanged, and no text as no arguments", () => {
    expect(argumentsText('not { "json" : 1 ')).toBe('not { "json" : 1 ');
    expect(argumentsText("")).toBe("{}");
    expect(argumentsText(`{"a": 1 ${BREAK}b}`)).toBe('{"a": 1 b}');
  });
});
