import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GrammarCache } from "../../engine/backends/grammar-cache.ts";
import { grammarCompiler } from "../../engine/backends/llama/grammar-gate.ts";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { loadLibrary } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { EngineError } from "../../engine/errors.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { tool } from "../support/engine/canonical.ts";
import { ask, missing, never, request, startBackend } from "../support/engine/demo-engine.ts";
import { HERMES_MARKERS } from "../support/engine/hermes-markers.ts";
import { workHere } from "../support/engine/work-here.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

const nested = (levels: number): object => (levels === 0 ? {} : { items: nested(levels - 1) });
const properties = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, {}]));
const anyOf = (count: number, inner: (i: number) => object) => ({
  anyOf: Array.from({ length: count }, (_, i) => inner(i)),
});
const record = (name: string) => ({ type: "object", properties: { [name]: {} }, required: [name] });

const BOMBS: readonly [name: string, schema: string][] = [
  ["200 levels", JSON.stringify(nested(200))],
  ["100,000 levels", `${'{"items":'.repeat(100_000)}{}${"}".repeat(100_000)}`],
  ["10,000 properties", JSON.stringify({ properties: properties(10_000) })],
  ["a cycle of references", '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}'],
  ["a list of itself", '{"type":"array","items":{"$ref":"#"}}'],
  ["alternatives of itself", '{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"},"maxItems":3}]}'],
  [
    "a product of alternatives",
    JSON.stringify({ allOf: Array.from({ length: 4 }, (_, i) => anyOf(16, (j) => record(`${i}-${j}`))) }),
  ],
  ["a billion items", '{"type":"array","items":{"type":"null"},"maxItems":1000000000}'],
  ["a long string at least", '{"type":"string","minLength":1000000000}'],
  ["a pattern with exponential backtracking", '{"type":"string","pattern":"^(a+)+$"}'],
  ["oneOf of many equal alternatives", JSON.stringify({ oneOf: Array.from({ length: 200 }, () => record("a")) })],
  ["oneOf inside oneOf", JSON.stringify({ oneOf: [1, 2, 3, 4].map(() => ({ oneOf: [record("a"), { $ref: "#" }] })) })],
  [
    "a pattern of nested groups",
    JSON.stringify({ type: "string", pattern: `${"(".repeat(60_000)}a${")".repeat(60_000)}` }),
  ],
  ["a type that is an object", '{"properties":{"a":{"type":[{"toString":1}]}}}'],
  ["a type named like a property of every object", '{"properties":{"a":{"type":"constructor"}}}'],
  ["a reference to another document", '{"$ref":"http://169.254.169.254/schema"}'],
  ["a prototype as property", '{"properties":{"__proto__":{"type":"null"}},"required":["__proto__"],"type":"object"}'],
  ["no schema", "5"],
  ["no JSON", "{"],
  ["half a megabyte", JSON.stringify({ description: "x".repeat(500_000) })],
  ["a large enum", JSON.stringify({ enum: Array.from({ length: 4000 }, (_, i) => `${(i * 7919) % 10_007}`) })],
];

const constrained = (schemaJson: string, strict: boolean): Partial<GenerateRequest> => ({
  outputConstraint: { kind: { $case: "jsonSchema", value: { name: "x", schemaJson, strict } } },
  maxOutputTokens: 24,
  sampling: { temperature: 1, seed: 3, stop: [], logitBias: {} },
});

describe.skipIf(missing !== "")("hostile schemas", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: 2, contextTokens: 4096 });
  });
  afterAll(() => backend.close());

  /** Expects a valid answer or a valid refusal; after it the node serves as before. */
  const outlive = async (wanted: GenerateRequest) => {
    try {
      const { finished, text } = await ask(backend, wanted);
      expect([FinishReason.STOP, FinishReason.MAX_OUTPUT_TOKENS, FinishReason.TOOL_CALLS]).toContain(finished.reason);
      if (finished.reason === FinishReason.STOP) expect(() => JSON.parse(text)).not.toThrow();
    } catch (error) {
      // A tool's schema is part of the prompt too.
      const allowed = wanted.tools.length > 0 ? ["INVALID_SCHEMA", "CONTEXT_WINDOW_EXCEEDED"] : ["INVALID_SCHEMA"];
      expect(allowed).toContain(error instanceof EngineError && error.reason);
    }
    expect(backend.load()).toMatchObject({ busySlots: 0, waiting: 0 });
    expect((await ask(backend, request("Count from 1 to 5."))).text).toBe("1, 2, 3, 4, 5");
  };

  test.each(BOMBS)(
    "do not harm the node as an answer: %s",
    async (_name, schema) => {
      await outlive(request("Hello!", constrained(schema, true)));
      await outlive(request("Hello!", constrained(schema, false)));
    },
    60_000,
  );

  test.each(BOMBS)(
    "do not harm the node as a strict tool: %s",
    async (_name, schema) => {
      const strict = { ...tool("get", "Get"), parametersJsonSchema: schema, strict: true };
      const { sampling, maxOutputTokens } = constrained(schema, true);
      const toolChoice = { mode: 3, name: "", disableParallelCalls: true, allowedNames: [] } as const;
      await outlive(request("Hello!", { tools: [strict], toolChoice, sampling, maxOutputTokens }));
    },
    60_000,
  );

  test("a value that can never be complete ends at the token limit with that finish reason", async () => {
    const endless = JSON.stringify({ type: "array", items: { type: "integer" }, minItems: 100_000 });
    const reply = await ask(backend, request("Hello!", constrained(endless, true)));
    expect(reply.finished).toMatchObject({ reason: FinishReason.MAX_OUTPUT_TOKENS, usage: { outputTokens: 24 } });
    expect(reply.events.at(-2)?.kind).toMatchObject({ $case: "blockEnded", value: { complete: false } });
  });

  describe("an unenforceable keyword is refused with strict, and otherwise enforced in part", () => {
    const cases: readonly [pointer: string, start: RegExp, schema: object][] = [
      ["/not", /^"/, { type: "string", not: { format: "date" } }],
      ["/properties/a/uniqueItems", /^\{/, { type: "object", properties: { a: { type: "array", uniqueItems: true } } }],
      ["/items/$ref", /^\[/, { type: "array", items: { $ref: "https://example.com/schema.json" } }],
    ];
    test.each(cases)("%s", async (pointer, start, schema) => {
      const json = JSON.stringify(schema);
      const field = "output_constraint.json_schema.schema_json";
      const refused = { reason: "INVALID_SCHEMA", facts: { field, pointer } };
      await expect(ask(backend, request("Hi", constrained(json, true)))).rejects.toMatchObject(refused);
      const { finished, text } = await ask(
        backend,
        request("Hi", { ...constrained(json, false), maxOutputTokens: 400 }),
      );
      if (finished.reason === FinishReason.STOP) expect(text).toMatch(start);
    });

    test("in a tool too", async () => {
      const parametersJsonSchema = '{"type":"object","properties":{"a":{"not":{"format":"date"}}}}';
      const strict = { ...tool("get", "Get"), parametersJsonSchema, strict: true };
      await expect(ask(backend, request("Hi", { tools: [tool("put", "Put"), strict] }))).rejects.toMatchObject({
        reason: "INVALID_SCHEMA",
        facts: { field: "tools.1.parameters_json_schema", pointer: "/properties/a/not" },
      });
    });
  });
});

test.skipIf(missing !== "")(
  "many grammars hold a bounded number of bytes, shared fairly between tenants",
  async () => {
    const MAX_BYTES = 64 * 1024;
    const { getLlama } = await loadLibrary();
    const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, progressLogs: false });
    const cache = new GrammarCache(grammarCompiler(llama), workHere, new VirtualClock(), MAX_BYTES);
    const get = (title: number, tenant: string) => {
      const schemaJson = JSON.stringify({
        title: String(title),
        type: "array",
        items: { type: "string", maxLength: 9 },
      });
      const kind = { $case: "jsonSchema" as const, value: { name: "x", schemaJson, strict: true } };
      const wish = {
        tools: [],
        mustCall: false,
        maxCalls: Number.POSITIVE_INFINITY,
        constraint: { kind },
        reasoning: "none",
      } as const;
      return cache.get({ ...wish, markers: HERMES_MARKERS }, { tenant, isolation: tenant, signal: never() });
    };
    const flood = async (...tenants: readonly string[]) => {
      let most = 0;
      for (let title = 1; title < 500; title += 1) {
        await get(title, tenants[title % tenants.length] ?? "");
        most = Math.max(most, cache.bytes);
      }
      return most;
    };
    const first = await get(0, "honest");
    expect(await flood("hostile")).toBeLessThan(0.6 * MAX_BYTES);
    expect(await get(0, "honest")).toBe(first);
    const most = await flood("one", "other", "third");
    expect(most).toBeGreaterThan(0.9 * MAX_BYTES);
    expect(most).toBeLessThanOrEqual(MAX_BYTES);
    expect(await get(0, "honest")).not.toBe(first);
    await llama.dispose();
  },
  60_000,
);
