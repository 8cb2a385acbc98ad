import { expect, test } from "vitest";
import { planToolUse } from "../../../../../engine/backends/request-plan.ts";
import { type ToolChoice, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";

const TOOLS = ["run", "search"].map((name) => ({ name, description: "", parametersJsonSchema: "", strict: false }));
const ANY = Number.POSITIVE_INFINITY;

function planOf(choice: Partial<ToolChoice> | undefined) {
  const toolChoice = choice && {
    mode: ToolChoiceMode.UNSPECIFIED,
    name: "",
    allowedNames: [],
    disableParallelCalls: false,
    ...choice,
  };
  const { callable, mustCall, maxCalls } = planToolUse({ tools: TOOLS, toolChoice });
  return [callable.map(({ name }) => name), mustCall, maxCalls];
}

const CASES: readonly [what: string, choice: Partial<ToolChoice> | undefined, ...plan: unknown[]][] = [
  ["none at all", undefined, ["run", "search"], false, ANY],
  ["auto, one call only", { disableParallelCalls: true }, ["run", "search"], false, 1],
  ["auto of a subset", { mode: ToolChoiceMode.AUTO, allowedNames: ["search"] }, ["search"], false, ANY],
  ["auto of an unknown subset", { mode: ToolChoiceMode.AUTO, allowedNames: ["nope"] }, [], false, ANY],
  ["required", { mode: ToolChoiceMode.REQUIRED }, ["run", "search"], true, ANY],
  ["required of a subset", { mode: ToolChoiceMode.REQUIRED, allowedNames: ["run"] }, ["run"], true, ANY],
  ["named", { mode: ToolChoiceMode.NAMED, name: "search" }, ["search"], true, 1],
  ["none", { mode: ToolChoiceMode.NONE }, [], false, ANY],
];

test.each(CASES)("a tool choice: %s", (_what, choice, ...plan) => {
  expect(planOf(choice)).toEqual(plan);
});

test.each([
  ["names no tool", { mode: ToolChoiceMode.NAMED, name: "nope" }],
  ["allows no tool", { mode: ToolChoiceMode.REQUIRED, allowedNames: ["nope"] }],
])("a required call that %s is refused", (_what, choice) => {
  expect(() => planOf(choice)).toThrow(expect.objectContaining({ reason: "INVALID_REQUEST" }));
});
