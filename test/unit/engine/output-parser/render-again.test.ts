import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";
import { describe, expect, test } from "vitest";
import { ChatTemplate } from "../../../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../../../engine/conversation/prompt-pieces.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, reasoning, result, text, user } from "../../../support/engine/canonical.ts";
import { PROFILE_SHAPES } from "../../../support/templates/profile-shapes.ts";
import { markersOf } from "./families.ts";
import { parsePieces } from "./parse-output.ts";

const template = new Template(
  readFileSync(new URL("../../../../engine/demo-model/template.jinja", import.meta.url), "utf8"),
);
const USER = { role: "user", content: "Hi" };
const hermes = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;

describe("a parsed turn", () => {
  test.each([
    ["text", false, "Hello.\nHow are you?"],
    ["text with white space around", false, "\n  Hello.\n\n"],
    ["reasoning and text", true, "Hm.\n\nWell.\n</think>\n\nHello."],
    ["reasoning that begins with white space", true, "\n Hm.\n\n</think>\n\n\nHello."],
    ["text and a call", false, `Let me look.\n${hermes("search", '{"q": "x", "n": [1, 2.50]}')}`],
    ["text that ends in a newline, and a call", false, `Let me look:\n\n${hermes("run", "{}")}`],
    [
      "reasoning and calls",
      true,
      `Search.\n</think>\n\n${hermes("search", '{"q": "\\u00e9"}')}\n${hermes("run", "{}")}`,
    ],
    ["reasoning, text and a call", true, `Search.\n</think>\n\nOne moment.\n${hermes("run", '{"a":  1}')}`],
    ["a call of a tool that does not exist", false, `Well.\n${hermes("rm", "{}")}`],
  ])("gives the same tokens when it is rendered again: %s", (_, thinks, output) => {
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
    const prompt = template.render({ messages: [USER], add_generation_prompt: true, enable_thinking: thinks });
    const again = template.render({ messages: [USER, turn], add_generation_prompt: false, enable_thinking: thinks });
    expect(again).toBe(`${prompt}${output}<|im_end|>\n`);
  });
});

describe("a parsed turn of Gemma 4", () => {
  const { thinking, callIds, historyArguments } = loadProfile("gemma-4");
  const template = new ChatTemplate({
    source: PROFILE_SHAPES["gemma-4"] ?? "",
    bosToken: "<bos>",
    eosToken: "<turn|>",
    controlTokens: new ControlTokens([]),
    callIds,
    historyArguments,
    reasoningOn: thinking?.on ?? {},
    reasoningOff: thinking?.off ?? {},
  });
  const promptOf = (messages: readonly Message[], thinks: boolean) =>
    template
      .render({ messages, tools: [], reasoning: thinks })
      .map((span) => span.text)
      .join("");
  const calls = [
    `<|tool_call>call:run{a:1.50,b:<|"|>x, "y"}<|"|>,c:[true,null,<|"|>z<|"|>],d:{e:<|"|><|"|>}}<tool_call|>`,
    "<|tool_call>call:search{}<tool_call|>",
  ];

  test.each([
    ["text", false, "Hello.\nHow are you?", ""],
    ["reasoning and text", true, "<|channel>thought\nHm.\n<channel|>Hello.", ""],
    ["a call", false, calls[0], '<|tool_response>response:run{value:<|"|>ok<|"|>}<tool_response|>'],
    [
      "reasoning and calls",
      true,
      `<|channel>thought\nHm.\n<channel|>${calls.join("")}`,
      "<|tool_response>response:run",
    ],
  ])("gives the same tokens when it is rendered again: %s", (_, thinks, output = "", behind) => {
    const { blocks } = parsePieces([output], { markers: markersOf("gemma-4") });
    const parts = blocks.map(({ kind, name = "", id = "", text: said }) =>
      kind === "call" ? call(name, said, id) : kind === "text" ? text(said) : reasoning(said),
    );
    const results = blocks.flatMap(({ kind, name = "", id = "" }): Message[] =>
      kind === "call" ? [{ role: Role.TOOL, parts: [result("ok", name, id)] }] : [],
    );
    const asked = [user("Hi")];
    const again = promptOf([...asked, assistant(...parts), ...results], thinks);
    const opening = thinks ? "" : "<|channel>thought\n<channel|>";
    const prompt = promptOf(asked, thinks);
    expect(prompt.endsWith(`<|turn>model\n${opening}`)).toBe(true);
    expect(again.startsWith(`${prompt.slice(0, prompt.length - opening.length)}${output}${behind}`), again).toBe(true);
  });
});
