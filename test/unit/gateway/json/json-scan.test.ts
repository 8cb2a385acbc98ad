import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { JsonScan } from "../../../../gateway/json/json-scan.ts";
import { DEFAULT_JSON_LIMITS } from "../../../support/gateway/default-settings.ts";
import { objectSample } from "../../../support/schemas/json-samples.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const SINGLE_KEYS = ["model", "messages", "stream", "max_tokens", "input"];

/** The finished scan of a text that arrived in chunks of `chunkBytes`. Throws the scan's refusal. */
function scan(text: string, limits = DEFAULT_JSON_LIMITS, chunkBytes = Number.POSITIVE_INFINITY): JsonScan {
  const body = Buffer.from(text);
  const running = new JsonScan(SINGLE_KEYS, limits);
  const step = Math.min(chunkBytes, Math.max(1, body.length));
  for (let at = 0; at < body.length; at += step) running.feed(body.subarray(at, at + step));
  running.end();
  return running;
}

/** The smallest limit under which the text passes: the scan's count. */
function measured(text: string, limit: "maxDepth" | "maxNodes"): number {
  for (let value = 0; value < 100; value += 1) {
    try {
      scan(text, { ...DEFAULT_JSON_LIMITS, [limit]: value });
      return value;
    } catch {}
  }
  throw new Error("never passes");
}

/** The same count, computed from the parsed value. */
function expected(value: unknown): { depth: number; nodes: number } {
  if (typeof value !== "object" || value === null) return { depth: 0, nodes: 1 };
  const inner = Object.values(value).map(expected);
  return {
    depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
    nodes: 1 + inner.reduce((sum, { nodes }) => sum + nodes, 0),
  };
}

test.each([
  "{}",
  "[]",
  '""',
  "-0.5e+10",
  " [ ] ",
  '{"a":1}',
  "[{},{},[]]",
  "[1,-2.5,3e8,true,false,null]",
  '{"a":{"b":{"c":[1,{"d":"e"}]}},"f":"g"}',
  '{ "a" : [ "b" , "c" ] , "d" : { } }',
  '["]","}","[{",",,,",":"]',
  '{"{":"}","[":["]"]}',
  String.raw`["\"","\\","\\\"","\\\\","a\"b,[c"]`,
  String.raw`{"a\"b":{"c\\":[1]}}`,
  JSON.stringify(["x".repeat(47), "x".repeat(48), "x".repeat(49), "y".repeat(500)]),
  JSON.stringify([`${"x".repeat(46)}"[`, `${"x".repeat(47)}"[`, `${"x".repeat(48)}"[`, `${"x".repeat(49)}"[`]),
  JSON.stringify(["\\".repeat(23), "\\".repeat(24), "\\".repeat(25), `${"\\".repeat(60)}"[`, `${"\\".repeat(61)}"[`]),
  JSON.stringify([`${"x".repeat(100)}\\`, `${"x".repeat(100)}\\"[`, '"'.repeat(200), "]"]),
  JSON.stringify(["é€😀,[{", { "ключ,{": "\u2028[" }]),
])("counts levels and values as the parser finds them: %s", (text) => {
  const { depth, nodes } = expected(JSON.parse(text));
  expect({ depth: measured(text, "maxDepth"), nodes: measured(text, "maxNodes") }).toEqual({ depth, nodes });
});

test("the result does not depend on the chunks", () => {
  const random = new SeededRandom(3);
  for (let round = 0; round < 1_000; round += 1) {
    const { text } = objectSample(random, 4);
    const { depth, nodes } = expected(JSON.parse(`[${text}]`));
    const limits = { maxDepth: 64, maxNodes: 1_000 };
    const chunkBytes = 1 + random.below(12);
    const framed = `[[${text}]]`;
    const whole = scan(framed, limits);
    expect(scan(framed, limits, chunkBytes).isRestated, framed).toBe(whole.isRestated);
    // Repeated keys are lost in the parsed value.
    expect(() => scan(framed, { maxDepth: depth, maxNodes: 1_000 }, chunkBytes), framed).toThrow(/levels/);
    expect(() => scan(framed, { maxDepth: 64, maxNodes: nodes }, chunkBytes), framed).toThrow(/values/);
  }
});

test.each([1, 2, 3, 7, 47, 48, 49, 64])("counts the same in chunks of %i bytes", (chunkBytes) => {
  const keys = ["a", '"', "\\", "x".repeat(59), "x".repeat(60), "x".repeat(61), "x".repeat(62), "y".repeat(300)];
  const values = [...keys, -0.5, 1e21, true, null, "é€😀", { b: [] }, [12, 345]];
  const root = keys.map((key) => ({ [key]: values }));
  const text = JSON.stringify(root, null, 1);
  const { depth, nodes } = expected(root);
  expect(() => scan(text, { maxDepth: depth, maxNodes: nodes }, chunkBytes)).not.toThrow();
  expect(() => scan(text, { maxDepth: depth, maxNodes: nodes - 1 }, chunkBytes)).toThrow(/values/);
  expect(() => scan(text, { maxDepth: depth - 1, maxNodes: nodes }, chunkBytes)).toThrow(/levels/);
});

test.each([1, 5, 64])("refuses the same in chunks of %i bytes", (chunkBytes) => {
  const refused = (text: string) => () => scan(text, DEFAULT_JSON_LIMITS, chunkBytes);
  expect(refused('{"temperature":1e999}')).toThrow(/too large/);
  expect(refused(`[${"1".repeat(1_001)}]`)).toThrow(/too large/);
  expect(refused('{"model":"a","x":[{"model":1}],"model":"b"}')).toThrow(/'model' more than once/);
  expect(refused(String.raw`{"model":"a","mod\u0065l":"b"}`)).toThrow(/'model' more than once/);
});

describe("numbers that JSON.stringify would change", () => {
  const RESTATED = [
    ...["[1.0]", "[-0]", "[1e3]", "[1E1]", "[0.10]", "[9007199254740993]", "[1e-999]", "[123456789012345678]"],
  ];
  const REPEATED = [
    ...['{"a":1,"b":[-1.5,0.1,1e+21,true,null]}', '{"01":0,"1.0":0,"-1":0,"1a":0,"":0}', "[999999999999999,-7]"],
    ...['["1.0","-0"]', String.raw`{"\u0061":"\u0031"}`, '{"b":0,"1":0}', "[]"],
  ];

  test.each(RESTATED)("are found where text is passed on: %s", (text) => {
    for (const outer of [`[[${text}]]`, `{"a":[${text}]}`, `{"a":{"b":[0,${text}]}}`])
      for (const chunkBytes of [1, 4, 1_000])
        expect(scan(outer, DEFAULT_JSON_LIMITS, chunkBytes).isRestated, outer).toBe(true);
  });

  test.each(RESTATED)("do not count where fields are read one by one: %s", (text) => {
    expect(scan(text).isRestated).toBe(false);
    expect(scan(`{"a":${text}}`).isRestated).toBe(false);
  });

  test.each(REPEATED)("do not include: %s", (text) => {
    expect(scan(`[[${text}]]`).isRestated).toBe(false);
  });

  test("are all found", () => {
    const random = new SeededRandom(5);
    let found = 0;
    for (let round = 0; round < 2_000; round += 1) {
      const { text, canonical } = objectSample(random, 3);
      const written = JSON.stringify(JSON.parse(text));
      if (written === canonical) continue;
      found += 1;
      expect(scan(`[[${text}]]`).isRestated, text).toBe(true);
    }
    expect(found).toBeGreaterThan(100);
  });

  test("do not occur in requests of agents", () => {
    const folder = join(import.meta.dirname, "../../../agent-requests");
    const files = readdirSync(folder);
    expect(files.length).toBeGreaterThan(10);
    for (const file of files) expect(scan(readFileSync(join(folder, file), "utf8")).isRestated, file).toBe(false);
  });
});

test("counts any text as the parser reads it", () => {
  // A small generator of its own, so that a failure can be reproduced.
  let state = 1;
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  const pieces = ['"', "\\", "{", "}", "[", ",", ":", "a", "é", "\n", "x".repeat(30), "\\\\".repeat(20)];
  const text = () => Array.from({ length: random(12) }, () => pieces[random(pieces.length)]).join("");
  const value = (room: number): unknown => {
    const kind = random(room > 0 ? 6 : 3);
    if (kind < 2) return text();
    if (kind === 2) return [true, null, -1.5, 1e21][random(4)];
    const inner = Array.from({ length: random(4) }, () => value(room - 1));
    return kind === 3 ? inner : Object.fromEntries(inner.map((item, at) => [`${text()}${at}`, item]));
  };
  for (let round = 0; round < 500; round += 1) {
    const root = value(3);
    const written = JSON.stringify(root, null, random(3));
    const { depth, nodes } = expected(root);
    expect(() => scan(written, { maxDepth: depth, maxNodes: nodes }), written).not.toThrow();
    expect(() => scan(written, { maxDepth: depth, maxNodes: nodes - 1 }), written).toThrow(/values/);
    if (depth > 0) expect(() => scan(written, { maxDepth: depth - 1, maxNodes: nodes }), written).toThrow(/levels/);
  }
});

describe("limits", () => {
  test.each(["[", '{"a":', '[{"a":'])("64 levels of %s pass, 65 do not", (open) => {
    const levels = open.split(/[[{]/).length - 1;
    expect(() => scan(open.repeat(64 / levels))).not.toThrow();
    expect(() => scan(`${open.repeat(64 / levels)}[`)).toThrow(
      expect.objectContaining({ code: "bad_request", detail: "json_depth" }),
    );
    expect(() => scan(open.repeat(1_000_000))).toThrow(/nested more deeply than 64 levels/);
  });

  test.each(["{},", "0,", '"",', "null,", "[],"])("200,000 values of %s pass, one more does not", (item) => {
    const list = `[${item.repeat(199_999)}`;
    expect(() => scan(list)).not.toThrow();
    expect(() => scan(`${list}1`)).toThrow(expect.objectContaining({ code: "bad_request", detail: "json_nodes" }));
  });

  test.each(["1e999", "-1e999", "[1E400]", "1".repeat(310), `-${"9".repeat(400)}`, "0".repeat(5000), "1e309"])(
    "a number that is not finite is refused: %s",
    (text) => {
      expect(() => scan(text)).toThrow(expect.objectContaining({ detail: "json_number_not_finite" }));
    },
  );

  test.each([
    "1e308",
    "-1.7976931348623157e308",
    "1e-999",
    "1".repeat(309),
    `0.${"1".repeat(900)}`,
    '"1e999"',
    "false",
  ])("a finite number passes: %s", (text) => {
    expect(() => scan(text)).not.toThrow();
  });
});

describe("repeated keys", () => {
  test.each([
    ["model", '{"model":"a","model":"b"}'],
    ["messages", '{"messages":[],"x":{},"messages":[]}'],
    ["stream", '{"stream":true, "stream" :false}'],
    ["max_tokens", '{"max_tokens":1,"max_tokens":2}'],
    ["input", '{"input":"","input":""}'],
    ["model", String.raw`{"model":"a","mod\u0065l":"b"}`],
    ["max_tokens", String.raw`{"max_tokens":1,"\u006d\u0061\u0078\u005f\u0074\u006f\u006b\u0065\u006e\u0073":2}`],
  ])("a second %s at the top is refused: %s", (key, text) => {
    expect(() => scan(text)).toThrow(
      expect.objectContaining({ code: "bad_request", path: [key], detail: "json_duplicate_key" }),
    );
  });

  test.each([
    '{"model":"a","messages":[{"model":"b","messages":[]},{"model":"c"}]}',
    '[{"model":1},{"model":2}]',
    '["model","model"]',
    '{"a":"model","b":"model","model":"model"}',
    '{"temperature":1,"temperature":2}',
    '{"model":1,"Model":2,"model ":3,"models":4}',
    String.raw`{"model":1,"model\u0000":2,"\u":3}`,
  ])("other repetitions pass: %s", (text) => {
    expect(() => scan(text)).not.toThrow();
  });
});

test.each(["", "}", "]]]]{", '"', '"\\', "{]", "'a'", "//", "\\", '{"a', "nul", "-", ",", "\ufeff"])(
  "leaves the validity of the JSON to the parser: %j",
  (text) => {
    expect(() => scan(text)).not.toThrow();
  },
);
