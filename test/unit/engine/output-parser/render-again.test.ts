import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { pythonQuoted } from "../../../../engine/conversation/jinja/operators.ts";
import { JinjaTemplate } from "../../../../engine/conversation/jinja/template.ts";
import { toValue } from "../../../../engine/conversation/jinja/values.ts";
import { parsePieces } from "./parse-output.ts";

const template = new JinjaTemplate(
  readFileSync(new URL("../../../../engine/demo-model/template.jinja", import.meta.url), "utf8"),
);
const USER = { role: "user", content: "Hi" };
const rendered = (given: object) =>
  template.render(Object.fromEntries(Object.entries(given).map(([name, value]) => [name, toValue(value)])), {
    quote: pythonQuoted,
  });
const hermes = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;

describe("a parsed turn", () => {
  test.each([
    ["text with white space around", false, "\n  Hello.\n\n"],
    ["reasoning that begins with white space", true, "\n Hm.\n\n</think>\n\n\nHello."],
    ["text that ends in a newline, and a call", false, `Let me look:\n\n${hermes("run", "{}")}`],
    [
      "reasoning and calls",
      true,
      `Search.\n</think>\n\n${hermes("search", '{"q": "\\u00e9"}')}\n${hermes("run", "{}")}`,
    ],
    ["reasoning, text and a call", true, `Search.\n</think>\n\nOne moment.\n${hermes("run", '{"a":  1}')}`],
    ["a call of a tool that does not exist", false, `Well.\n${hermes("rm", "{}")}`],
  ])("a parsed turn gives the same tokens when it is rendered again: %s", (_, thinks, output) => {
    const { blocks } = parsePieces([output], { startsInReasoning: thinks });
    const textOf = (kind: string) => blocks.flatMap((block) => (block.kind === kind ? [block.text] : [])).join("");
    const calls = blocks.flatMap(({ kind, name, text }) =>
      kind === "call" ? [{ function: { name, arguments: text } }] : [],
    );
    const turn = {
      role: "assistant",
      reasoning_content: textOf("reasoning"),
      content: textOf("text"),
      tool_calls: calls.length > 0 ? calls : undefined,
    };
    const prompt = rendered({ messages: [USER], add_generation_prompt: true, enable_thinking: thinks });
    const again = rendered({ messages: [USER, turn], add_generation_prompt: false, enable_thinking: thinks });
    expect(again).toBe(`${prompt}${output}<|im_end|>\n`);
  });
});
