import { expect, test } from "vitest";
import { planAnswer } from "../../../../engine/backends/answer-plan.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest } from "../../../support/requests/generate-request.ts";

const OUTPUT_CONSTRAINT = { kind: { $case: "jsonObject", value: {} } } as const;
const TOOL = { name: "run", description: "", parametersJsonSchema: "", strict: true, deferred: false };

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
