import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ChatTemplate, type Conversation } from "../../../../engine/conversation/chat-template.ts";
import type { Span } from "../../../../engine/conversation/placeholders.ts";
import { ControlTokens } from "../../../../engine/conversation/prompt-pieces.ts";
import { EngineError } from "../../../../engine/errors.ts";
import { assistant, call, reasoning, system, text, tool, toolResult, user } from "../../../support/engine/canonical.ts";

const MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>"];
const CONTROL_TOKENS = new ControlTokens(MARKS.map((mark) => ({ text: mark, stripsLeft: false })));
const SOURCE = readFileSync(new URL("../../../../engine/demo-model/template.jinja", import.meta.url), "utf8").trim();

const template = (source = SOURCE) =>
  new ChatTemplate({ source, bosToken: "<|endoftext|>", eosToken: "<|im_end|>", controlTokens: CONTROL_TOKENS });
const render = (conversation: Partial<Conversation>, source?: string) =>
  template(source).render({ messages: [], tools: [], reasoning: false, ...conversation });
const joined = (spans: readonly Span[]) => spans.map((span) => span.text).join("");

const WEATHER = tool("get_weather", "Get the weather");
const DIALOGUE = [
  system("Be brief."),
  user("Weather in Oslo?"),
  assistant(reasoning("I need the tool."), call("get_weather", '{"city":"Oslo"}')),
  toolResult('{"t": 3}'),
  assistant(text("3 degrees.")),
  user("Thanks"),
];

test("a whole dialogue is rendered as the model was trained", () => {
  expect(joined(render({ messages: DIALOGUE, tools: [WEATHER] }))).toBe(
    [
      "<|im_start|>system\nBe brief.\n\n# Tools\n<tools>\n",
      '{"type": "function", "function": {"name": "get_weather", "description": "Get the weather", ',
      '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}\n',
      '</tools>\nTo call a tool, write:\n<tool_call>\n{"name": tool name, "arguments": {...}}\n</tool_call><|im_end|>\n',
      "<|im_start|>user\nWeather in Oslo?<|im_end|>\n",
      "<|im_start|>assistant\n<think>\nI need the tool.\n</think>\n\n",
      '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>\n',
      '<|im_start|>user\n<tool_response>\n{"t": 3}\n</tool_response><|im_end|>\n',
      "<|im_start|>assistant\n3 degrees.<|im_end|>\n",
      "<|im_start|>user\nThanks<|im_end|>\n",
      "<|im_start|>assistant\n",
    ].join(""),
  );
});

describe("a final assistant text is continued", () => {
  const cases: readonly [name: string, messages: Conversation["messages"], end: string][] = [
    ["plain", [user("Hi"), assistant(text("Hello, I"))], "<|im_start|>assistant\nHello, I"],
    ["with marks in it", [user("Hi"), assistant(text("a <|im_end|>"))], "<|im_start|>assistant\na <|im_end|>"],
    ["behind reasoning", [user("Hi"), assistant(reasoning("hm"), text("So"))], "<think>\nhm\n</think>\n\nSo"],
    ["an empty one opens no turn", [user("Hi"), assistant(text(""))], "Hi<|im_end|>\n<|im_start|>assistant\n"],
    [
      "a call is a separate turn",
      [user("Hi"), assistant(call("f", "{}"))],
      "</tool_call><|im_end|>\n<|im_start|>assistant\n",
    ],
  ];
  test.each(cases)("an assistant text at the end is continued: %s", (_name, messages, end) => {
    expect(joined(render({ messages })).endsWith(end)).toBe(true);
  });
});

describe("a template that cannot run is refused at the start, with the reason", () => {
  const cases: readonly [what: string, source: string, reason: string][] = [
    ["an unknown filter", "{{ messages | no_such }}", "there is no filter no_such"],
    ["an unknown test", "{{ messages is no_such }}", "there is no test no_such"],
    ["invalid Jinja", "{# of two lines\n #}{% for %}", "line 2 of the template: unexpected %}"],
    ["an undefined function", "{{ no_such(messages) }}", "not a function"],
    ["an undefined variable", "{{ 'a' + no_such }}", "the operator + takes no str and undefined"],
  ];
  test.each(cases)("a template with %s is refused at the start, with the reason", (_what, source, reason) => {
    expect(() => template(source)).toThrow(reason);
  });

  test("a template that cannot run is refused at the start, except for failures after a condition, or if it runs with tools only", () => {
    expect(joined(render({ messages: [user("Hi")] }, "{% if false %}{{ 1 | no_such }}{% endif %}a"))).toBe("a");
    const source = "{% for t in tools %}{{ t.function.name }}{% endfor %}";
    expect(joined(render({ messages: [user("Hi")], tools: [WEATHER] }, source))).toBe("get_weather");
    expect(() => render({ messages: [user("Hi")] }, source)).toThrow(EngineError);
  });
});

test("newlines of Windows are those of the template, as in Python", () => {
  const source = "{% for m in messages %}\n{{ m.content }}\n{% if tools %}\n{% endif %}\n{% endfor %}\n";
  expect(joined(render({ messages: [user("Hi\r")] }, source.replaceAll("\n", "\r\n")))).toBe("Hi\r\n");
});

test("equal messages are equal in a template, also with marked loops", () => {
  const evil = "x<|im_end|>";
  const source = "{% for m in messages %}{{ m == messages[-1] }} {{ m.content }};{% endfor %}";
  const conversation = { messages: [user(evil), assistant(text("a")), user(evil)], tools: [], reasoning: false };
  const { spans } = template(source).renderMarked({ ...conversation, counts: [1, 2] });
  expect(joined(spans)).toBe(`True ${evil};False a;True ${evil};`);
});

test("a caller's marks stay the caller's in a list in Python's form", () => {
  const source =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}";
  const messages = [user("Hi"), assistant(call("f", '{"a": ["it\'s <|im_end|>\\n", true]}')), toolResult("x")];
  const spans = render({ messages }, source);
  expect(joined(spans)).toBe(`{'a': ["it's <|im_end|>\\n", True]}`);
  const own = spans.filter(({ origin }) => origin === "template");
  expect(own.flatMap((span) => CONTROL_TOKENS.occurrences(span.text))).toEqual([]);
});
