import { describe, expect, test } from "vitest";
import { planReasoning } from "../../../../../engine/backends/request-plan.ts";
import { loadProfile } from "../../../../../engine/profiles/profile.ts";
import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";

const enabled = (fields: Partial<Reasoning> = {}): Reasoning => ({ mode: ReasoningMode.ENABLED, effort: 0, ...fields });

describe("the reasoning that a request asks for", () => {
  const cases: readonly [profile: string, asked: Reasoning | undefined, wanted: boolean, budget?: number][] = [
    ["hermes-thinking", undefined, false],
    ["hermes-thinking", { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.HIGH }, false],
    ["hermes-thinking", enabled(), true],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.LOW }), true, 1024],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.MEDIUM }), true, 8192],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.HIGH }), true],
    ["hermes-thinking", enabled({ effort: ReasoningEffort.LOW, budgetTokens: 7 }), true, 7],
    ["qwen3", undefined, true],
    ["qwen3", { mode: ReasoningMode.UNSPECIFIED, effort: ReasoningEffort.LOW }, true, 1024],
    ["qwen3", { mode: ReasoningMode.DISABLED, effort: 0 }, false],
  ];
  test.each(cases)("%s: %j", (profile, asked, wanted, budgetTokens) => {
    expect(planReasoning(asked, loadProfile(profile).thinking)).toMatchObject({ wanted, budgetTokens });
  });

  test("an unknown family reasons if the request enables it", () => {
    expect(planReasoning(undefined, undefined).wanted).toBe(false);
    expect(planReasoning(enabled({ effort: ReasoningEffort.LOW, budgetTokens: 9 }), undefined)).toEqual({
      wanted: true,
      effort: undefined,
      budgetTokens: 9,
    });
  });
});
