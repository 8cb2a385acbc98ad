import { expect, test } from "vitest";
import { planAnswer, planConversation } from "../../../../../engine/backends/answer-plan.ts";
import { loadProfile } from "../../../../../engine/profiles/profile.ts";
import { ReasoningEffort, ReasoningMode } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";

const OUTPUT_CONSTRAINT = { kind: { $case: "jsonObject", value: {} } } as const;
const TOOL = { name: "run", description: "", parametersJsonSchema: "", strict: true };

test("the template receives the family's own word for an effort", () => {
  const reasoning = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.HIGH };
  const { conversation } = planConversation(generateRequest({ reasoning }), loadProfile("deepseek-v4").thinking);
  expect(conversation).toMatchObject({ reasoning: true, effortVariables: { reasoning_effort: "high" } });
});

test("a model without reasoning has a budget of 0, and one without a bound an infinite budget", () => {
  const budgetOf = (mode: ReasoningMode) =>
    planConversation(generateRequest({ reasoning: { mode, effort: ReasoningEffort.UNSPECIFIED } }), undefined)
      .reasoningBudget;
  expect([budgetOf(ReasoningMode.DISABLED), budgetOf(ReasoningMode.ENABLED)]).toEqual([0, Number.POSITIVE_INFINITY]);
});

test("a required call excludes any other form of answer", () => {
  const profile = loadProfile("qwen3");
  const free = planAnswer(generateRequest({ outputConstraint: OUTPUT_CONSTRAINT, tools: [TOOL] }), profile);
  expect([free.json, free.fixed.constraint]).toEqual(["object", OUTPUT_CONSTRAINT]);
  const toolChoice = { mode: ToolChoiceMode.REQUIRED, name: "", allowedNames: [], disableParallelCalls: false };
  const forced = planAnswer(
    generateRequest({ outputConstraint: OUTPUT_CONSTRAINT, tools: [TOOL], toolChoice }),
    profile,
  );
  expect([forced.json, forced.fixed.constraint, forced.fixed.mustCall]).toEqual([undefined, undefined, true]);
});

test("a callable tool keeps its index among all tools, for error messages", () => {
  const tools = ["a", "b", "c"].map((name) => ({ ...TOOL, name }));
  const toolChoice = { mode: ToolChoiceMode.AUTO, name: "", allowedNames: ["c"], disableParallelCalls: false };
  const { fixed } = planAnswer(generateRequest({ tools, toolChoice }), loadProfile("qwen3"));
  expect(fixed.tools).toMatchObject([{ name: "c", position: 2 }]);
});
