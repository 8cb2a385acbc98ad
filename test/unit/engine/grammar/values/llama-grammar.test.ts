import { describe, expect, test } from "vitest";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar } from "../../../../../engine/grammar/output/constraint-grammar.ts";
import { toGrammar } from "../../../../../engine/grammar/values/json-schema.ts";
import { HERMES_MARKERS } from "../../../../support/engine/hermes-markers.ts";
import { loadLlama } from "../../../../support/engine/load-llama.ts";
import { answerText, callText } from "../grammar-texts.ts";
import { SCHEMA_CASES } from "../schema-cases.ts";

const llama = await loadLlama();
const schemas: unknown[] = [
  ...SCHEMA_CASES.map((each) => each.schema),
  { type: "object", properties: Object.fromEntries(Array.from({ length: 256 }, (_, i) => [`p${i}`, {}])) },
  { type: "array", items: { maxLength: 1e15, type: "string" }, minItems: 1e6, maxItems: 1e15 },
  { enum: Array.from({ length: 1000 }, (_, i) => `value-${(i * 7919) % 10_007}`) },
];

describe.skipIf(llama === undefined)("llama.cpp (skipped where node-llama-cpp has no binary)", () => {
  test.each(schemas.map((schema, i) => [i, schema] as const))(
    "compiles the grammar of schema %i",
    async (_, schema) => {
      const rules = new GrammarRules();
      const text = finishGrammar(toGrammar(schema, rules).root, rules, "");
      await expect(llama?.createGrammar({ grammar: text })).resolves.toBeDefined();
    },
  );

  test("compiles answer and tool-call grammars", async () => {
    const parametersJsonSchema = '{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}';
    const tool = { name: "search", description: "", parametersJsonSchema, strict: true, cacheBreakpoint: undefined };
    const texts = [
      answerText({ kind: { $case: "jsonObject", value: {} } }),
      callText({ markers: HERMES_MARKERS.toolCall, tools: [tool, { ...tool, name: "find" }], maxCalls: 16 }),
    ];
    for (const grammar of texts) await expect(llama?.createGrammar({ grammar })).resolves.toBeDefined();
  });
});
