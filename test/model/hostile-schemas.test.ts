import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { EngineError } from "../../engine/errors.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { tool } from "../support/engine/canonical.ts";
import { ask, missing, request, startBackend } from "../support/engine/demo-engine.ts";
import { HOSTILE_SHAPES } from "../support/schemas/hostile-schema.ts";
import { SeededRandom } from "../support/seeded-random.ts";

/** Schemas that cost more than their length, and texts that are no schemas. */
const BOMBS: readonly [name: string, schema: string][] = [
  ...Object.entries(HOSTILE_SHAPES).map(([name, shape], at): [string, string] => [
    name,
    JSON.stringify(shape(new SeededRandom(at), 12)),
  ]),
  ["100,000 levels", `${'{"items":'.repeat(100_000)}{}${"}".repeat(100_000)}`],
  ["a pattern of nested groups", `{"type":"string","pattern":"${"(".repeat(60_000)}a${")".repeat(60_000)}"}`],
  ["a reference to another document", '{"$ref":"http://169.254.169.254/schema"}'],
  ["no schema", "5"],
  ["no JSON", "{"],
  ["half a megabyte", JSON.stringify({ description: "x".repeat(500_000) })],
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
    "do not harm the node as an answer or a strict tool: %s",
    async (_name, schema) => {
      await outlive(request("Hello!", constrained(schema, true)));
      await outlive(request("Hello!", constrained(schema, false)));
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
    test.each(cases)(
      "an unenforceable keyword is refused with strict, and enforced in part without: %s",
      async (pointer, start, schema) => {
        const json = JSON.stringify(schema);
        const field = "output_constraint.json_schema.schema_json";
        const refused = { reason: "INVALID_SCHEMA", facts: { field, pointer } };
        await expect(ask(backend, request("Hi", constrained(json, true)))).rejects.toMatchObject(refused);
        const { finished, text } = await ask(
          backend,
          request("Hi", { ...constrained(json, false), maxOutputTokens: 400 }),
        );
        if (finished.reason === FinishReason.STOP) expect(text).toMatch(start);
      },
    );
  });
});
