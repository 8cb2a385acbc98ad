import { describe, expect, test } from "vitest";
import { limitOutput, newCallIds, planReasoning, planToolUse } from "../../../../engine/backends/request-plan.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import {
  FinishReason,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, type Tool, type ToolChoice, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, declaration, user } from "../../../support/engine/canonical.ts";
import { generateRequest, toolOf } from "../../../support/requests/generate-request.ts";

const TOOLS = ["run", "search"].map((name) => ({ ...toolOf(name, {}), parametersJsonSchema: "" }));
const ANY = Number.POSITIVE_INFINITY;

function planOf(choice: Partial<ToolChoice> | undefined, tools: readonly Tool[] = TOOLS, messages = [user("Hi")]) {
  const toolChoice = choice && {
    mode: ToolChoiceMode.UNSPECIFIED,
    name: "",
    allowedNames: [],
    disableParallelCalls: false,
    ...choice,
  };
  const { callable, mustCall, maxCalls } = planToolUse({ tools, toolChoice, messages });
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

describe("a deferred tool", () => {
  const tools = TOOLS.map((tool) => ({ ...tool, deferred: tool.name === "search" }));
  const loaded = { role: Role.USER, parts: [declaration("gone", "search")] };

  test("a deferred tool may be called once a message declares it", () => {
    expect(planOf(undefined, tools)).toEqual([["run"], false, ANY]);
    expect(planOf(undefined, tools, [loaded])).toEqual([["run", "search"], false, ANY]);
    const named = { mode: ToolChoiceMode.NAMED, name: "search" };
    expect(() => planOf(named, tools)).toThrow(expect.objectContaining({ reason: "INVALID_REQUEST" }));
    expect(planOf(named, tools, [loaded])).toEqual([["search"], true, 1]);
  });

  test("a deferred tool is seen, where calls are forbidden, once it is declared", () => {
    const deferred = tools.slice(1);
    const toolChoice = { mode: ToolChoiceMode.NONE, name: "", allowedNames: [], disableParallelCalls: false };
    const seen = [[user("Hi")], [loaded]].map(
      (messages) => planToolUse({ tools: deferred, toolChoice, messages }).mustNotCall,
    );
    expect(seen).toEqual([false, true]);
  });
});

const limitOf = (maxOutputTokens: number | undefined, inputTokens: number) =>
  limitOutput(generateRequest({ maxOutputTokens }), inputTokens, 100);

test("an answer ends at the request's limit or at the window, whichever is lower", () => {
  expect(limitOf(10, 40)).toEqual({ maxOutputTokens: 10, limitReason: FinishReason.MAX_OUTPUT_TOKENS });
  expect(limitOf(60, 40)).toEqual({ maxOutputTokens: 60, limitReason: FinishReason.MAX_OUTPUT_TOKENS });
  expect(limitOf(61, 40)).toEqual({ maxOutputTokens: 60, limitReason: FinishReason.CONTEXT_WINDOW });
  expect(limitOf(undefined, 99)).toEqual({ maxOutputTokens: 1, limitReason: FinishReason.CONTEXT_WINDOW });
});

test("a prompt that fills the window is refused with both numbers", () => {
  const facts = { input_tokens: "100", context_window: "100" };
  expect(() => limitOf(1, 100)).toThrow(expect.objectContaining({ reason: "CONTEXT_WINDOW_EXCEEDED", facts }));
});

test("an answer of no tokens is whole, and needs room for one", () => {
  expect(limitOf(0, 10)).toEqual({ maxOutputTokens: 0, limitReason: FinishReason.STOP });
  expect(() => limitOf(0, 100)).toThrow(expect.objectContaining({ reason: "CONTEXT_WINDOW_EXCEEDED" }));
});

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
  test.each(cases)(
    "the reasoning of a request to %s follows its fields: %j",
    (profile, asked, wanted, budgetTokens) => {
      expect(planReasoning(asked, loadProfile(profile).thinking)).toMatchObject({ wanted, budgetTokens });
    },
  );

  test("an unknown family reasons if the request enables it", () => {
    expect(planReasoning(undefined, undefined).wanted).toBe(false);
    expect(planReasoning(enabled({ effort: ReasoningEffort.LOW, budgetTokens: 9 }), undefined)).toEqual({
      wanted: true,
      effort: undefined,
      budgetTokens: 9,
    });
  });
});

test("call ids have the form that the model's template requires", () => {
  const plain = newCallIds("any", []);
  expect(plain("run")).toMatch(/^call_[0-9a-f]{24}$/);
  expect(plain("run")).not.toBe(plain("run"));
  expect(newCallIds("nine-characters", [])("run")).toMatch(/^[0-9a-f]{9}$/);
});

test("numbered ids continue those of the conversation", () => {
  const history = [user("Hi"), assistant(call("run", "{}"), call("run", "{}")), assistant(call("search", "{}"))];
  const numbered = newCallIds("functions.name:index", history);
  expect([numbered("run"), numbered("search")]).toEqual(["functions.run:3", "functions.search:4"]);
});
