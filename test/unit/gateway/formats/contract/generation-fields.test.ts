import { describe, expect, test } from "vitest";
import { checkedCacheHints } from "../../../../../gateway/formats/contract/conversation.ts";
import {
  checkedConstraint,
  checkedReasoning,
  checkedSampling,
} from "../../../../../gateway/formats/contract/request.ts";
import {
  type OutputConstraint,
  Reasoning,
  ReasoningMode,
  Sampling,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { faultOf } from "../thrown-by.ts";

describe("sampling", () => {
  test.each<[string, Partial<Sampling>, string]>([
    ["no number", { temperature: Number.NaN }, "sampling.temperature"],
    ["too hot", { temperature: 2.1 }, "sampling.temperature"],
    ["a share above 1", { topP: 1.1 }, "sampling.top_p"],
    ["a share below 0", { minP: -0.1 }, "sampling.min_p"],
    ["a penalty of 0", { repetitionPenalty: 0 }, "sampling.repetition_penalty"],
    ["too many alternatives", { topLogprobs: 51 }, "sampling.top_logprobs"],
    ["a bias beyond measure", { logitBias: { 5: 1_001 } }, "sampling.logit_bias"],
    ["too many stop strings", { stop: Array.from({ length: 200 }, (_, at) => `${at}`) }, "sampling.stop"],
  ])("%s is refused by its field", (_, fields, param) => {
    expect(faultOf(() => checkedSampling({ ...Sampling.create(), ...fields })).param).toBe(param);
  });

  test("absent fields stay absent, and empty stop strings are none", () => {
    expect(checkedSampling(undefined)).toBeUndefined();
    const checked = checkedSampling({ ...Sampling.create(), stop: ["", "END"] });
    expect(checked).toMatchObject({ stop: ["END"] });
    expect(checked?.temperature).toBeUndefined();
  });
});

describe("reasoning", () => {
  const budget = (budgetTokens: number) => Reasoning.create({ mode: ReasoningMode.ENABLED, budgetTokens });

  test("leaves part of the answer visible", () => {
    expect(checkedReasoning(budget(500), 100)?.budgetTokens).toBe(99);
    expect(checkedReasoning(budget(500), 1)?.budgetTokens).toBe(1);
    expect(checkedReasoning(budget(500), undefined)?.budgetTokens).toBe(500);
  });

  test("with an unknown mode or effort, or a zero budget, is refused", () => {
    const unknown = 99 as ReasoningMode;
    expect(faultOf(() => checkedReasoning(Reasoning.create({ mode: unknown }), 1)).param).toBe("reasoning.mode");
    expect(faultOf(() => checkedReasoning(Reasoning.create({ effort: 99 as never }), 1)).param).toBe(
      "reasoning.effort",
    );
    expect(faultOf(() => checkedReasoning(budget(0), 9)).param).toBe("reasoning.budget_tokens");
  });
});

describe("the form of the answer", () => {
  const schema = (schemaJson: string, name = ""): OutputConstraint => ({
    kind: { $case: "jsonSchema", value: { schemaJson, strict: true, name } },
  });

  test("keeps the text of a schema, byte for byte", () => {
    const constraint = schema('{ "type" : "object" }');
    expect(checkedConstraint(constraint)).toEqual(constraint);
  });

  test.each([
    ["no JSON", schema("{"), "output_constraint.json_schema.schema_json"],
    ["no object", schema("[]"), "output_constraint.json_schema.schema_json"],
    ["too large", schema(`{"a":"${"x".repeat(2 ** 21)}"}`), "output_constraint.json_schema.schema_json"],
    ["a name that is too long", schema("{}", "x".repeat(65)), "output_constraint.json_schema.name"],
  ])("%s is refused by its field", (_, constraint, param) => {
    expect(faultOf(() => checkedConstraint(constraint)).param).toBe(param);
  });
});

describe("hints on the cache", () => {
  const hints = (fields: object) => ({ affinityKey: "a", isolationSalt: "of another", ttl: undefined, ...fields });

  test("hold no salt of the caller", () => {
    expect(checkedCacheHints(hints({}))).toEqual({ affinityKey: "a", isolationSalt: "", ttl: undefined });
  });

  test("are refused if a key is too long or a retention out of bounds", () => {
    expect(faultOf(() => checkedCacheHints(hints({ affinityKey: "x".repeat(513) }))).param).toBe("cache.affinity_key");
    for (const seconds of [-1, 86_401])
      expect(faultOf(() => checkedCacheHints(hints({ ttl: { seconds, nanos: 0 } }))).param).toBe("cache.ttl");
  });
});
