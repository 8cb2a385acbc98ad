import { describe, expect, test } from "vitest";
import { checkedToolChoice, checkedTools } from "../../../../../gateway/formats/contract/request.ts";
import { type ToolChoice, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { toolOf } from "../../../../support/requests/generate-request.ts";
import { faultOf } from "../thrown-by.ts";

const tools = [toolOf("look", { type: "object" }), toolOf("find", {})];
const choice = (fields: Partial<ToolChoice>): ToolChoice => ({
  ...{ mode: ToolChoiceMode.AUTO, name: "", allowedNames: [], disableParallelCalls: false },
  ...fields,
});

describe("tools", () => {
  test("keep the text of their schema, and have an empty one without it", () => {
    const written = { ...toolOf("look", {}), parametersJsonSchema: '{ "type" : "object" }' };
    const [first, second] = checkedTools([written, { ...toolOf("find", {}), parametersJsonSchema: "" }]);
    expect(first?.parametersJsonSchema).toBe('{ "type" : "object" }');
    expect(JSON.parse(second?.parametersJsonSchema ?? "")).toMatchObject({ type: "object" });
  });

  test.each([
    ["without a name", [toolOf("", {})], "tools[0].name"],
    ["of one name", [toolOf("look", {}), toolOf("look", {})], "tools[1].name"],
    [
      "with a schema that is none",
      [{ ...toolOf("look", {}), parametersJsonSchema: "7" }],
      "tools[0].parameters_json_schema",
    ],
  ])("%s are refused where they stand", (_, given, param) => {
    expect(faultOf(() => checkedTools(given)).param).toBe(param);
  });
});

describe("the choice among them", () => {
  test.each<[string, Partial<ToolChoice>, string]>([
    ["a mode that there is not", { mode: 9 as ToolChoiceMode }, "tool_choice.mode"],
    ["a name that no tool has", { mode: ToolChoiceMode.NAMED, name: "gone" }, "tool_choice.name"],
    ["one of several that no tool has", { allowedNames: ["look", "gone"] }, "tool_choice.allowed_names[1]"],
  ])("%s is refused by its field", (_, fields, param) => {
    expect(faultOf(() => checkedToolChoice(choice(fields), tools)).param).toBe(param);
  });

  test("without tools is absent, unless it needs one", () => {
    expect(checkedToolChoice(choice({}), [])).toBeUndefined();
    expect(faultOf(() => checkedToolChoice(choice({ mode: ToolChoiceMode.REQUIRED }), [])).param).toBe("tool_choice");
  });
});
