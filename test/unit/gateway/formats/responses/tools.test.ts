import { describe, expect, test } from "vitest";
import { head, prepare, refusal } from "./prepared-request.ts";

const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const tool = (name: string, more: object = {}) => ({ type: "function", name, parameters, ...more });
const group = (name: string, tools: readonly object[], more: object = {}) => ({
  type: "namespace",
  name,
  description: "d",
  tools,
  ...more,
});

/** The `tools` that the reply repeats. */
function echoed(extra: object, options = {}): unknown {
  const frame = /data: (.+)/.exec(prepare(extra, options).encoder(head).keepAlive())?.[1] ?? "";
  return JSON.parse(frame).response.tools;
}

describe("function tools", () => {
  test("reach the model with the schema's text in the caller's order", () => {
    const tools = [tool("read", { description: "reads", strict: true }), tool("write", { strict: false })];
    expect(prepare({ tools }).request.tools).toEqual([
      { name: "read", description: "reads", parametersJsonSchema: JSON.stringify(parameters), strict: true },
      { name: "write", description: "", parametersJsonSchema: JSON.stringify(parameters), strict: false },
    ]);
  });

  test("without parameters have none, and null is absent everywhere", () => {
    const bare = { type: "function", name: "now" };
    const nulls = { ...bare, parameters: null, strict: null, description: null };
    const empty = '{"type":"object","properties":{}}';
    for (const one of [bare, nulls])
      expect(prepare({ tools: [one] }).request.tools).toEqual([
        { name: "now", description: "", parametersJsonSchema: empty, strict: false },
      ]);
  });

  test("without strict are strict where the schema allows it, but not with one too long for engines", () => {
    const closed = (description: string) => ({ ...parameters, description, additionalProperties: false });
    const tools = [tool("a", { parameters: closed("") }), tool("b", { parameters: closed("x".repeat(64 * 1024)) })];
    expect(prepare({ tools }).request.tools.map(({ strict }) => strict)).toEqual([true, false]);
  });

  test("are repeated flat in the reply, with strict", () => {
    expect(echoed({ tools: [tool("read", { extra: 1 }), { type: "function", name: "now" }] })).toEqual([
      { type: "function", name: "read", description: null, parameters, strict: false },
      {
        type: "function",
        name: "now",
        description: null,
        parameters: { type: "object", properties: {} },
        strict: false,
      },
    ]);
  });

  test.each([[tool("no spaces"), "invalid_value", "tools[0].name"]])("%j is refused", (entry, code, path) => {
    expect(refusal({ tools: [entry] }).slice(0, 2)).toEqual([code, path]);
  });

  test("declared twice are passed on unchanged", () => {
    expect(prepare({ tools: [tool("f"), tool("f")] }).request.tools).toHaveLength(2);
  });
});

describe("tools that are not the caller's own", () => {
  test.each(["web_search", "file_search", "computer_use_preview", "mcp", "custom", "web_search_preview_2025_03_11"])(
    "%s is refused by name",
    (type) => {
      const [code, path, message] = refusal({ tools: [tool("f"), { type, name: "x" }] });
      expect([code, path]).toEqual(["unsupported_value", "tools[1].type"]);
      expect(message).toContain(`The tool type '${type}' is not supported`);
    },
  );

  test("an unknown type is refused without its name", () => {
    expect(refusal({ tools: [{ type: "zzz" }] })[2]).toContain("This tool type is not supported");
  });

  test("are left out, of the echo too, if so configured", () => {
    const tools = [{ type: "web_search" }, tool("f"), group("g", [{ type: "custom", name: "c" }, tool("h")])];
    const options = { unsupportedTools: "skip" } as const;
    expect(prepare({ tools }, options).request.tools.map(({ name }) => name)).toEqual(["f", "g__h"]);
    expect(echoed({ tools }, options)).toMatchObject([{ name: "f" }, { name: "g", tools: [{ name: "h" }] }]);
    expect(prepare({ tools: [{ type: "web_search" }] }, options).request.toolChoice).toBeUndefined();
  });
});

describe("namespaces", () => {
  test("are flattened for the model and repeated as groups", () => {
    const tools = [group("agents", [tool("spawn"), tool("wait")])];
    expect(prepare({ tools }).request.tools.map(({ name }) => name)).toEqual(["agents__spawn", "agents__wait"]);
    expect(echoed({ tools })).toMatchObject([
      { type: "namespace", name: "agents", description: "d", tools: [{ name: "spawn" }, { name: "wait" }] },
    ]);
  });

  test.each([
    [[tool("a__b"), group("a", [tool("b")])], "invalid_value", "tools[1].tools[0].name"],
    [[group("a", [tool("b__c")]), group("a__b", [tool("c")])], "invalid_value", "tools[1].tools[0].name"],
    [[group("a", [group("b", [])])], "unsupported_value", "tools[0].tools[0].type"],
    [[group("a", [{ type: "custom", name: "c" }])], "unsupported_value", "tools[0].tools[0].type"],
    [[group("", [])], "invalid_value", "tools[0].name"],
    [[group("n".repeat(100), [tool("t".repeat(100))])], "invalid_value", "tools[0].tools[0].name"],
  ])("ambiguous or malformed ones are refused (%#)", (tools, code, path) => {
    expect(refusal({ tools }).slice(0, 2)).toEqual([code, path]);
  });

  test("their tools count like any others", () => {
    const names = (prefix: string) => Array.from({ length: 300 }, (_, index) => tool(`${prefix}${index}`));
    expect(refusal({ tools: [group("a", names("x")), group("b", names("y"))] }).slice(0, 2)).toEqual([
      "array_above_max_length",
      "tools",
    ]);
  });
});

const closed = (properties: object, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

function isStrict(parameters: unknown): boolean | undefined {
  const tools = [{ type: "function", name: "f", parameters }];
  return prepare({ tools }).request.tools[0]?.strict;
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
