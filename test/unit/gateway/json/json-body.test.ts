import { describe, expect, test } from "vitest";
import { wellFormed } from "../../../../gateway/json/json-body.ts";
import { jsonText } from "../../../../gateway/json/json-text.ts";
import { parseJsonBody } from "../../../support/gateway/parse-json-body.ts";
import { objectSample } from "../../../support/schemas/json-samples.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const parse = (text: string) => parseJsonBody(Buffer.from(text));

const fault = (code: string, detail: string) => expect.objectContaining({ code, detail });

describe("takes", () => {
  test("every text that JSON.parse accepts", () => {
    const body = { model: "svc-qwen", messages: [{ role: "user", content: "hé€😀\u2028\u0000" }], n: -1.5e3, ok: null };
    expect(parse(JSON.stringify(body, null, "\t"))).toEqual(body);
  });

  test("a byte order mark", () => {
    expect(parse('\ufeff{"a":1}')).toEqual({ a: 1 });
  });

  test("an empty object", () => {
    expect(parse(" {} \n")).toEqual({});
  });
});

describe("refuses as invalid_json", () => {
  test.each([
    "",
    "   ",
    "\ufeff",
    "\ufeff\ufeff{}",
    '{"a":',
    '{"a":1}x',
    '{"a":1}{}',
    "{'a':1}",
    '{"a":1,}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":1/*c*/}',
    '// c\n{"a":1}',
    '{"a":"\n"}',
    '{"a":01}',
    '{"a":"\\x"}',
    "{a:1}",
    "nul",
  ])("%j", (text) => {
    expect(() => parse(text)).toThrow(fault("invalid_json", "json_syntax"));
  });

  test.each([
    ["a byte that is never UTF-8", [0x22, 0xff, 0x22]],
    ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
    ["a sequence that is cut", [0x22, 0xe2, 0x82, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a code point too high", [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
  ])("%s", (_, bytes) => {
    const body = Buffer.concat([Buffer.from('{"a":'), Buffer.from(bytes), Buffer.from("}")]);
    expect(() => parseJsonBody(body)).toThrow(fault("invalid_json", "json_not_utf8"));
  });

  test("UTF-16", () => {
    expect(() => parseJsonBody(Buffer.from('\ufeff{"a":1}', "utf16le"))).toThrow(
      fault("invalid_json", "json_not_utf8"),
    );
    expect(() => parseJsonBody(Buffer.from('{"a":1}', "utf16le"))).toThrow(fault("invalid_json", "json_syntax"));
  });
});

describe("refuses as bad_request", () => {
  test.each(["[]", "null", '"x"', "3", "true", '[{"a":1}]'])("a root that is not an object: %s", (text) => {
    expect(() => parse(text)).toThrow(fault("bad_request", "json_not_an_object"));
  });

  test.each([
    ["what is nested too deeply", `{"a":${"[".repeat(64)}${"]".repeat(64)}}`, "json_depth"],
    ["too many values", `{"a":[${"{},".repeat(200_000)}{}]}`, "json_nodes"],
    ["numbers that are not finite", '{"temperature":1e999}', "json_number_not_finite"],
    ["a repeated key", '{"model":"a","model":"b"}', "json_duplicate_key"],
    ["a key with a lone surrogate", String.raw`{"tool":{"\ud800":1}}`, "json_key_not_unicode"],
  ])("%s", (_, text, detail) => {
    expect(() => parse(text)).toThrow(fault("bad_request", detail));
  });

  test("a body over the caller's limits", () => {
    const body = Buffer.from('{"a":[1,2]}');
    expect(parseJsonBody(body, { maxDepth: 2, maxNodes: 4 })).toEqual({ a: [1, 2] });
    expect(() => parseJsonBody(body, { maxDepth: 1, maxNodes: 4 })).toThrow(fault("bad_request", "json_depth"));
    expect(() => parseJsonBody(body, { maxDepth: 2, maxNodes: 3 })).toThrow(fault("bad_request", "json_nodes"));
  });
});

test.each([
  '{"a":"CANARY',
  "CANARY",
  '{"CANARY":1e999}',
  '{"a":CANARY}',
  '["CANARY"]',
  '{"CANARY":1,"model":"CANARY","model":"CANARY"}',
  String.raw`{"CANARY\ud800":1}`,
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

describe("keys such as __proto__", () => {
  test.each([
    '{"__proto__":{"polluted":1}}',
    String.raw`{"\u005f_proto__":{"polluted":1}}`,
    '{"constructor":{"prototype":{"polluted":1}}}',
    '{"tools":[{"input":{"__proto__":{"polluted":1}}}]}',
    String.raw`{"__proto__":{"polluted":"\ud800"}}`,
  ])("stay plain data: %s", (text) => {
    const body = parse(text);
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
    expect(JSON.stringify(body)).toBe(JSON.stringify(JSON.parse(text)).replaceAll("\\ud800", "\ufffd"));
    expect("polluted" in body).toBe(false);
    expect("polluted" in {}).toBe(false);
  });
});

describe("lone surrogates", () => {
  test("become U+FFFD in values, wherever they are", () => {
    const text = String.raw`{"a":"x\ud800","b":["\udc00y",{"c":"\uD83Dz"}],"d":"\udc00\ud800"}`;
    expect(parse(text)).toEqual({ a: "x\ufffd", b: ["\ufffdy", { c: "\ufffdz" }], d: "\ufffd\ufffd" });
  });

  test("leave pairs and the text of an escape unchanged", () => {
    expect(parse(String.raw`{"a":"\ud83d\ude00","b":"\\ud83d","😀":"😀"}`)).toEqual({
      a: "😀",
      b: String.raw`\ud83d`,
      "😀": "😀",
    });
  });
});

describe("the text of a value of the body", () => {
  /** The text of the object in the body at the place of a schema or of arguments. */
  const textOf = (json: string) => {
    const { tools } = parse(`{"temperature":1.0,"tools":[{"input_schema":${json}}]}`) as {
      tools: [{ input_schema: object }];
    };
    return jsonText(tools[0].input_schema as never);
  };

  test("has the caller's numbers and otherwise matches JSON.stringify", () => {
    const random = new SeededRandom(11);
    for (let round = 0; round < 1_000; round += 1) {
      const { text, canonical } = objectSample(random, 4);
      expect(textOf(text), text).toBe(canonical);
    }
  });

  test("is the same whatever else the body holds", () => {
    const schema = String.raw`{"b":"\u0041","a":[ 1 ],"a":[ 2 ]}`;
    const beside = parse(`{"tools":[{"input_schema":${schema}},{"input_schema":{"1":1.0}}]}`) as {
      tools: [{ input_schema: object }];
    };
    expect(jsonText(beside.tools[0].input_schema as never)).toBe(textOf(schema));
    expect(textOf(schema)).toBe('{"b":"A","a":[2]}');
  });

  test("has lone surrogates replaced", () => {
    expect(textOf(String.raw`{"b":1.0,"a":["\ud800",{"2":"x\udc00"}]}`)).toBe(
      '{"b":1.0,"a":["\ufffd",{"2":"x\ufffd"}]}',
    );
  });

  test("keeps __proto__ keys as data", () => {
    const text = '{"b":0,"__proto__":{"1":{"polluted":1.0}},"constructor":{"prototype":{"0":-0}}}';
    expect(textOf(text)).toBe(text);
    expect("polluted" in {}).toBe(false);
  });
});

test("wellFormed leaves other values unchanged", () => {
  for (const value of [null, true, 1.5, "", "é😀"]) expect(wellFormed(value)).toBe(value);
  const list = ["a", { b: "c" }];
  expect(wellFormed(list)).toBe(list);
  expect(list).toEqual(["a", { b: "c" }]);
});
