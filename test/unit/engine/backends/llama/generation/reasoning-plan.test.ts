import { describe, expect, test } from "vitest";
import { planReasoning } from "../../../../../../engine/backends/llama/generation/reasoning-plan.ts";
import { loadProfile } from "../../../../../../engine/profiles/profile.ts";
import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";

const FREE = Number.POSITIVE_INFINITY;
const enabled = (fields: Partial<Reasoning> = {}): Reasoning => ({ mode: ReasoningMode.ENABLED, effort: 0, ...fields });

describe("what a request wants of the reasoning", () => {
  const cases: readonly [profile: string, wish: Reasoning | undefined, reasoning: boolean, budget: number][] = [
    ["hermes-thinking", undefined, false, 0],
    ["hermes-thinking", { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.HIGH }, false, 0],
    ["hermes-thinking", enabled(), true, FREE],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.LOW }), true, 1024],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.MEDIUM }), true, 8192],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.HIGH }), true, FREE],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.LOW, budgetTokens: 7 }), true, 7],
    ["qwen3", undefined, true, FREE],
    ["qwen3", { mode: ReasoningMode.UNSPECIFIED, effort: ReasoningEffort.LOW }, true, 1024],
    ["qwen3", { mode: ReasoningMode.DISABLED, effort: 0 }, false, 0],
  ];
  test.each(cases)("%s: %j", (profile, wish, reasoning, reasoningBudget) => {
    expect(planReasoning(wish, loadProfile(profile).thinking)).toMatchObject({ reasoning, reasoningBudget });
  });

  test("the template hears its own word for an effort", () => {
    const { thinking } = loadProfile("deepseek-v4");
    const { effortVariables } = planReasoning(enabled({ effort: ReasoningEffort.HIGH }), thinking);
    expect(effortVariables).toEqual({ reasoning_effort: "high" });
  });
});
