import { describe, expect, test } from "vitest";
import { ReasoningEffort, ReasoningMode } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { prepare, refusal } from "./prepared-request.ts";

describe("the model", () => {
  test.each(["qwen", "svc/other", "svc/", "svc/svc/qwen", "other/qwen", "SVC/qwen"])("%s is unknown", (model) => {
    expect(refusal({ model }).slice(0, 2)).toEqual(["unknown_model", "model"]);
  });
});

describe("the canonical request", () => {
  test("of the smallest body leaves everything to the model", () => {
    const prepared = prepare();
    expect(prepared.stream).toBe(false);
    expect(prepared.request).toEqual({
      model: "svc-qwen",
      messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "hi" } } }] }],
      tools: [],
      sampling: { stop: [], logitBias: {} },
      cache: { affinityKey: "", isolationSalt: "" },
    });
  });

  test("carries the requested settings", () => {
    const { stream, request } = prepare({
      stream: true,
      temperature: 0,
      top_p: 0.5,
      frequency_penalty: 0.5,
      presence_penalty: -2,
      max_output_tokens: 100,
      reasoning: { effort: "high" },
      prompt_cache_key: "session",
    });
    expect(stream).toBe(true);
    expect(request).toMatchObject({
      maxOutputTokens: 100,
      sampling: { temperature: 0, topP: 0.5, frequencyPenalty: 0.5, presencePenalty: -2 },
      reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.HIGH },
      cache: { affinityKey: "session" },
    });
  });

  test.each([
    [{}, undefined],
    [{ top_logprobs: 0 }, undefined],
    [{ top_logprobs: 5 }, 5],
    [{ include: ["message.output_text.logprobs"] }, 0],
    [{ include: ["message.output_text.logprobs"], top_logprobs: 20 }, 20],
  ])("%j requests the logprobs of %s alternatives", (extra, expected) => {
    expect(prepare(extra).request.sampling?.topLogprobs).toBe(expected);
  });

  test.each([
    ["none", ReasoningMode.DISABLED, ReasoningEffort.UNSPECIFIED],
    ["minimal", ReasoningMode.ENABLED, ReasoningEffort.LOW],
    ["low", ReasoningMode.ENABLED, ReasoningEffort.LOW],
    ["medium", ReasoningMode.ENABLED, ReasoningEffort.MEDIUM],
    ["high", ReasoningMode.ENABLED, ReasoningEffort.HIGH],
    ["xhigh", ReasoningMode.ENABLED, ReasoningEffort.HIGH],
    ["max", ReasoningMode.ENABLED, ReasoningEffort.HIGH],
  ])("effort %s has its mode and level", (name, mode, effort) => {
    expect(prepare({ reasoning: { effort: name } }).request.reasoning).toEqual({ mode, effort });
  });
});
