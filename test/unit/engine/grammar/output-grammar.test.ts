import { describe, expect, test } from "vitest";
import {
  BEHIND_REASONING,
  type OutputGrammarOptions,
  outputGrammar,
} from "../../../../engine/grammar/output/output-grammar.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import type { OutputConstraint } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FAMILIES, markersOf, optionsOf } from "../output-parser/families.ts";
import { parsePieces } from "../output-parser/parse-output.ts";
import { matcherOf } from "./gbnf-matcher.ts";
import { answerText } from "./grammar-texts.ts";

const jsonSchema = (schemaJson: string, strict = true): OutputConstraint => ({
  kind: { $case: "jsonSchema", value: { name: "answer", schemaJson, strict } },
});

describe("the schema of an answer", () => {
  test.each([
    ["broken JSON", '{"type":'],
    ["a long text", `{"description":"${"x".repeat(300_000)}"}`],
  ])("the schema of an answer refuses %s without quoting it", (_, schema) => {
    expect(() => answerText(jsonSchema(schema))).toThrow(
      /^Invalid JSON Schema at [a-z_.]+#: is (not valid JSON|too long)\.$/,
    );
  });
});

const SCHEMA = JSON.stringify({
  type: "object",
  properties: { n: { type: "integer", minimum: 1, maximum: 5 } },
  required: ["n"],
});
const tool = (strict: boolean, name = "run", parametersJsonSchema = "") => ({ name, parametersJsonSchema, strict });
const grammarOf = (more: Partial<OutputGrammarOptions>) => {
  const tools = more.tools ?? [];
  const defaults = { mustCall: false, constraint: undefined, reasoning: "none" } as const;
  const markers = markersOf("hermes-thinking");
  return outputGrammar({ markers, ...defaults, maxCalls: 2, argumentTypes: argumentTypes(tools), ...more, tools }).text;
};
const matcher = (more: Partial<OutputGrammarOptions>, root?: string) => matcherOf(grammarOf(more) ?? "", root);
const CALL = '<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>';
const JSON_OBJECT = { kind: { $case: "jsonObject" as const, value: {} } };

describe("the grammar of an output", () => {
  test("an output without constraints has no grammar", () => {
    expect(grammarOf({})).toBeUndefined();
    expect(grammarOf({ constraint: { kind: undefined } })).toBeUndefined();
  });

  test("the grammar of an output matches a call or a value if both are possible", () => {
    const matches = matcher({ tools: [tool(false)], constraint: JSON_OBJECT });
    expect([CALL, '{"a": 1}', "[]", `{}${CALL}`, "Well"].map(matches)).toEqual([true, true, false, false, false]);
  });

  test("the grammar of an output ignores the schema of a tool that is not strict, unless a call is mandatory", () => {
    const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
    const tools = [tool(true, "run", SCHEMA), tool(false, "walk", SCHEMA)];
    const texts = [call("run", '{"n": 9}'), call("walk", '{"n": 9}'), call("walk", '{"n": 1}')];
    expect(texts.map(matcher({ tools }))).toEqual([false, true, true]);
    expect(texts.map(matcher({ tools, mustCall: true }))).toEqual([false, false, true]);
    const wrong = [tool(true, "run", SCHEMA), tool(false, "walk", '{"type":"nonsense"}')];
    expect(matcher({ tools: wrong })(call("walk", "{}"))).toBe(true);
  });

  test("the grammar of an output matches only calls if they are mandatory", () => {
    const matches = matcher({ tools: [tool(false)], constraint: JSON_OBJECT, mustCall: true });
    expect([CALL, `${CALL}\n${CALL}`, "{}", "", "<think>"].map(matches)).toEqual([true, true, false, false, false]);
  });

  describe("after reasoning", () => {
    const asked = { tools: [tool(false)], mustCall: true };
    const cases: readonly [OutputGrammarOptions["reasoning"], good: readonly string[], bad: readonly string[]][] = [
      ["none", [CALL], [`<think></think>${CALL}`, "", "\n"]],
      [
        "may-open",
        [CALL, `<think>\nHm <tool_call>\n</think>\n\n${CALL}`, `<think></think>${CALL}`],
        ["<think>Hm", "<think>", `<think>${CALL}`, "<think>Hm</think>", `Hm</think>${CALL}`, `Hm${CALL}`],
      ],
      [
        "opened",
        [`Hm</think>${CALL}`, `Hm </thin</think>\n${CALL}`],
        ["", "Hm", CALL, "Hm</think>", `Hm</think>\n\n\n${CALL}`, `Hm</think>x${CALL}`],
      ],
    ];
    test.each(cases)("reasoning that is %s is followed by the output, under its grammar", (reasoning, good, bad) => {
      const matches = matcher({ ...asked, reasoning });
      expect(good.filter((text) => !matches(text))).toEqual([]);
      expect(bad.filter(matches)).toEqual([]);
      expect(matcher({ ...asked, reasoning }, BEHIND_REASONING)(CALL)).toBe(true);
    });

    test("the grammar of an output after reasoning that a call ends, in families where it does", () => {
      const options = { ...asked, markers: markersOf("kimi-k2-thinking"), reasoning: "opened" } as const;
      const calls =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
      const matches = matcher(options);
      expect([`Hm${calls}`, `Hm</think>${calls}`, `Hm${calls}${calls}`, "Hm"].map(matches)).toEqual([
        true,
        true,
        false,
        false,
      ]);
    });

    test("the grammar of an output after reasoning that the mark of the text ends, whose closing mark may be incomplete", () => {
      const matches = matcher({ constraint: JSON_OBJECT, markers: markersOf("kimi-k3"), reasoning: "opened" });
      const said = '<|open|>response<|sep|>{"a": 1}';
      const good = [`Hm${said}`, `Hm<|close|>think<|sep|>${said}<|close|>response<|sep|>`, `Hm<|close|>think${said}`];
      expect(good.filter((text) => !matches(text))).toEqual([]);
      const bad = ["Hm", 'Hm{"a": 1}', `Hm<|close|>think<|sep${said}`, `Hm<|close|>think<|sep|> x${said}`];
      expect(bad.filter(matches)).toEqual([]);
    });
  });

  test("the grammar of an output leaves text beside a strict tool free, including reasoning with brackets or mentioned marks", () => {
    const matches = matcher({ tools: [tool(true)] });
    const good = [
      "",
      "Well, a <b> and <tool_cal",
      `Let me see.\n${CALL}`,
      `<think>I could <tool_call> it</think>\n\nNo.`,
      `\n<think>So</think>\n<think>Hm</think>${CALL}`,
      "<think>never ended <tool_call>",
      "One: <think> is no reasoning here.",
    ];
    expect(good.filter((text) => !matches(text))).toEqual([]);
    const bad = ["<tool_call>", "a <tool_call> b", `<think></think>x<tool_call>{}`, `One <think> two <tool_call>`];
    expect(bad.filter(matches)).toEqual([]);
  });
});

describe.each(FAMILIES)("an optional call of a strict tool by $profile", ({ profile, write, onlyAtStart }) => {
  const tools = [tool(true, "search", SCHEMA), tool(true)];
  const matches = matcher({ tools, markers: markersOf(profile), maxCalls: 3 });
  const before = onlyAtStart ? ["", "\n "] : ["", "Let me look.\n", "[<(｜<"];
  const options = {
    ...optionsOf(profile),
    argumentTypes: argumentTypes(tools),
    toolNames: tools.map(({ name }) => name),
  };

  test("an optional call of a strict tool lets text continue after calls in a code fence, and nowhere else", () => {
    const matches = matcher({ tools: [tool(true, "run", SCHEMA)] });
    const call = (n: number) => CALL.replace("{}", `{"n": ${n}}`);
    const texts = [`So:\n\`\`\`\n${call(1)}\n\`\`\`\nWell. ${call(2)}`, `~~~\n${call(1)}\n  ~~~~\n`];
    expect(texts.filter((text) => !matches(text))).toEqual([]);
    expect([texts[0]?.replace("2", "9") ?? "", `${call(1)}\nWell.`, `${call(1)}\n\`\``].filter(matches)).toEqual([]);
  });

  test("an optional call of a strict tool follows its schema wherever the parser detects a call", () => {
    for (const text of before) {
      const call = (args: object) => text + write([{ name: "search", args: { ...args } }]);
      expect(matches(call({ n: 5 })), call({ n: 5 })).toBe(true);
      expect([{ n: 6 }, { n: "x" }, {}, { n: 5, m: 1 }].map(call).filter(matches)).toEqual([]);
      expect(matches(text + write([{ name: "rm", args: {} }]))).toBe(false);
    }
    expect(["Nothing to call.", "a < b, [x], {y} and ｜"].filter((text) => !matches(text))).toEqual([]);
  });

  test("an optional call of a strict tool follows its schema also without the outer mark", () => {
    const { toolCall } = loadProfile(profile);
    const inner =
      toolCall && "callOpen" in toolCall && "open" in toolCall && toolCall.open !== "" ? toolCall.callOpen : "";
    if (toolCall === undefined || inner === "") return;
    const bare = (n: number) => {
      const text = write([{ name: "search", args: { n } }]);
      return text.slice(text.indexOf(inner));
    };
    expect([matches(bare(5)), matches(`So: ${bare(1)}`), matches(bare(6))]).toEqual([true, true, false]);
    expect(parsePieces([bare(5)], options).blocks).toMatchObject([{ kind: "call", name: "search", complete: true }]);
  });
});

const THINKING = FAMILIES.filter(({ profile }) => markersOf(profile).reasoning !== undefined);

describe.each(THINKING)("the reasoning of $profile beside a strict tool", ({ profile, write }) => {
  const markers = markersOf(profile);
  const { reasoning, toolCall } = markers;
  const tools = [tool(true, "search", SCHEMA), tool(true, "search_all"), tool(true)];
  const matchesOf = (named: typeof tools) => matcher({ tools: named, markers, reasoning: "opened" });
  const matches = matchesOf(tools);
  const kindsOf = (text: string, named: typeof tools) => {
    const toolNames = named.map(({ name }) => name);
    const options = { markers, argumentTypes: argumentTypes(named), toolNames, startsInReasoning: true };
    return parsePieces([text], options).blocks.map(({ kind }) => kind);
  };
  const call = (name: string, args: object) => write([{ name, args: { ...args } }]);
  const marks = Object.entries(toolCall ?? {}).flatMap(([key, mark]) =>
    typeof mark === "string" && mark.trim() !== "" && key !== "form" ? [mark.trim()] : [],
  );

  const isReasoning = (text: string, named: typeof tools) => kindsOf(text, named).join() === "reasoning";

  test("reasoning beside a strict tool continues after marks of calls only where the output parser allows it, and after mentioned ones", () => {
    const begun = [call("run", {}), call("search_all", {}), call("search", { n: 1 }), call("rm", {})];
    const mentions = [...marks, ...begun.flatMap((text) => [...text].map((_, at) => text.slice(0, at + 1)))];
    for (const text of mentions.map((mention) => `I could ${mention} ~ or not.`))
      if (matches(text)) expect(isReasoning(text, tools), text).toBe(true);
    if (reasoning?.endedByCall === true) return;
    for (const text of marks.map((mark) => `I could ${mark} ~ or not.`))
      expect(matches(text), text).toBe(isReasoning(text, tools));
  });

  if (reasoning?.endedByCall)
    test("reasoning beside a strict tool ends with a call that follows its schema", () => {
      const written = (text: string) => `Hm.${text}`;
      const good = [call("search", { n: 5 }), call("search_all", {}), call("run", {})].map(written);
      expect(good.filter((text) => !matches(text))).toEqual([]);
      for (const text of good) expect(kindsOf(text, tools)).toEqual(["reasoning", "call"]);
      const bad = [call("search", { n: 6 }), call("search", {}), call("search_all", { n: 1 })].map(written);
      expect(bad.filter(matches)).toEqual([]);
    });

  test("reasoning beside a strict tool behaves the same beside hundreds of tools", () => {
    const many = Array.from({ length: 300 }, (_, i) => tool(true, `a_server_of_tools__tool_${i}_${i % 7}`));
    const matchesMany = matchesOf(many);
    for (const name of ["a_server_of_tools__tool_299_5", "Another"]) {
      const text = `I could ${call(name, {})} ~ or not.`;
      expect(matchesMany(text), text).toBe(isReasoning(text, many));
    }
  });
});
