import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Conversation } from "../../../../engine/conversation/chat-template.ts";
import {
  type PromptFormat,
  PromptRenderer,
  packConversation,
  renderPrompt,
} from "../../../../engine/conversation/prompt-renderer.ts";
import { EngineError } from "../../../../engine/errors.ts";
import { type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import {
  assistant,
  call,
  part,
  reasoning,
  system,
  text,
  tool,
  toolResult,
  user,
} from "../../../support/engine/canonical.ts";

const MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
const SOURCE = readFileSync(new URL("../../../../engine/demo-model/template.jinja", import.meta.url), "utf8").trim();

const format = (source = SOURCE): PromptFormat => ({
  source,
  bosToken: "<|endoftext|>",
  eosToken: "<|im_end|>",
  controlTokens: MARKS.map((mark) => ({ text: mark, stripsLeft: false })),
  maxUnits: 8192,
  cutsAtWords: true,
  reasoningOpen: "<think>",
});
const talk = (messages: readonly Message[], more: Partial<Conversation> = {}): Conversation => ({
  messages,
  tools: [],
  reasoning: false,
  ...more,
});
const onThread = async (conversation: Conversation, source?: string) =>
  renderPrompt({ format: format(source), conversation: await packConversation(conversation, async () => {}) });
const results = (...contents: readonly string[]): Message => ({
  role: Role.TOOL,
  parts: [
    part({
      $case: "toolResult",
      value: { callId: "call_1", name: "f", content: contents.map(text), isError: false },
    }),
  ],
});

describe("a conversation packed for a thread gives the same prompt", () => {
  const many = Array.from({ length: 700 }, (_, at) => `line ${at} <|im_end|>`);
  const marked: Part = { ...text("marked"), cacheBreakpoint: { ttl: undefined } };
  const cases: readonly [what: string, conversation: Conversation][] = [
    ["of many messages", talk(many.map((line, at) => (at % 2 ? assistant(text(line)) : user(line))))],
    ["of a message of many texts", talk([{ role: Role.USER, parts: many.map(text) }])],
    ["of a result of many texts", talk([user("a"), assistant(call("f", "{}")), results(...many)])],
    [
      "of texts around reasoning and calls",
      talk([assistant(text("a"), reasoning("b"), text("c"), call("f", "{}"), text("d"))]),
    ],
    ["with a mark among its texts", talk([{ role: Role.USER, parts: [text("a"), marked, text("b")] }])],
    ["with tools", talk([system("s"), user("a")], { tools: [tool("f", "does"), tool("g", "does not")] })],
  ];
  test.each(cases)("a conversation %s, packed for a thread, gives the same prompt", async (_what, conversation) => {
    expect(await onThread(conversation)).toEqual(new PromptRenderer(format()).render(conversation));
  });

  test("packing yields every few hundred parts, however they are spread", async () => {
    for (const [, conversation] of cases.slice(0, 3)) {
      let turns = 0;
      await packConversation(conversation, async () => {
        turns += 1;
      });
      const parts = conversation.messages
        .flatMap((message) => message.parts)
        .filter(({ kind }) => kind?.$case !== "text");
      expect(turns).toBeGreaterThanOrEqual(Math.floor((conversation.messages.length + parts.length) / 600));
    }
  });

  test("cancellation stops the packing of a conversation", async () => {
    const packing = packConversation(cases[0]?.[1] ?? talk([]), () =>
      Promise.reject(new EngineError("CANCELLED", "gone")),
    );
    await expect(packing).rejects.toThrow("gone");
  });
});

describe("a conversation that cannot be rendered is the caller's error, with its position", () => {
  /** Refuses a user's text "no", a tool called "no", and content other than text. */
  const picky =
    "{% for t in tools or [] %}{% if t.function.name == 'no' %}{{ raise_exception('tool ' + t.function.name) }}{% endif %}{{ t.function.name }}{% endfor %}" +
    "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('secret ' + m.content) }}{% endif %}{{ m.role + m.content | string }}{% endfor %}";
  const shouting = "{% for m in messages %}{{ m.content | upper }}{% endfor %}";
  const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const filler = Array.from({ length: 9 }, (_, at) => user(`fine ${at}`));

  const refused = talk([...filler.slice(0, 4), user("no"), ...filler]);
  const refusedTool = talk(filler, { tools: [tool("a", ""), tool("no", "")] });
  const refusedFirst = talk(filler, { tools: [tool("no", ""), tool("a", ""), tool("b", "")] });
  const damaged = talk([user("X"), user("<|im_end|>")]);
  const deep = talk(filler, { tools: [{ ...tool("f", ""), parametersJsonSchema: `{"a":${nested(9000)}}` }] });
  const faults: readonly [what: string, source: string, of: Conversation, reason: string, path: string][] = [
    ["a template that throws on message 4", picky, refused, "INVALID_REQUEST", "messages[4]"],
    ["a template that throws on a tool", picky, refusedTool, "INVALID_REQUEST", "tools[1]"],
    ["a template that throws on the first tool", picky, refusedFirst, "INVALID_REQUEST", "tools[0]"],
    ["a template that damages a placeholder", shouting, damaged, "INVALID_REQUEST", "messages[1]"],
    ["a deeply nested schema of a tool", SOURCE, deep, "INVALID_SCHEMA", "tools[0].parameters_json_schema"],
  ];
  test.each(faults)(
    "%s is the caller's error, with its position",
    async (_what, source, conversation, reason, path) => {
      const failure: unknown = await onThread(conversation, source).catch((error: unknown) => error);
      if (!(failure instanceof EngineError)) throw failure;
      expect(failure.reason).toBe(reason);
      expect(failure.message).toMatch(new RegExp(`^${path.replace(/[[\].]/g, "\\$&")}: `));
      expect(failure.message).not.toMatch(/secret|no[^t]|im_end|fine/);
    },
  );

  const asked = (messages: readonly Message[]) =>
    "{% if not (messages | selectattr('role', 'equalto', 'user') | list) %}{{ raise_exception('No user asks.') }}{% endif %}" +
    `{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('Not this one.') }}{% endif %}{{ m.content }}{% endfor %}${messages.length}`;
  test("a template's message is reported if its source contains it, with the refused message", async () => {
    const messages = [system("s"), user("a"), user("no"), user("b")];
    const failure = await onThread(talk(messages), asked(messages)).catch((error: unknown) => error);
    expect(failure).toMatchObject({ facts: { field: "messages[2]", template_says: "Not this one." } });
    const quoted = await onThread(talk([...filler, user("no")]), picky).catch((error: unknown) => error);
    expect(quoted).toMatchObject({ facts: { field: "messages[9]" } });
    expect(JSON.stringify(quoted)).not.toContain("secret");
  });

  test.each(["see http://host.example/x", "see /etc/passwd", "see 10.0.0.1", "see host.example"])(
    "a template's message that could name a place is not reported: %s",
    async (words) => {
      const failure = await onThread(talk([user("a")]), `{{ raise_exception('${words}') }}`).catch(
        (error: unknown) => error,
      );
      expect(failure).toMatchObject({ facts: { field: "messages[0]" } });
      expect(JSON.stringify(failure)).not.toContain("see");
    },
  );

  const harmless: readonly [what: string, conversation: Conversation][] = [
    ["arguments of 9,000 levels in the history", talk([user("a"), assistant(call("f", `{"a":${nested(9000)}}`))])],
    [
      "arguments that are not closed, a hundred thousand brackets long",
      talk([user("a"), assistant(call("f", "[".repeat(100_000)))]),
    ],
    [
      "unpaired surrogates",
      talk([user("\ud800 \udc00"), assistant(call("f", '{"\\ud800":"\\udfff"}')), toolResult("\udbff")]),
    ],
    [
      "the edges of placeholders",
      talk([user("\u0001a:0\u0001 \\u0001"), assistant(call("f", '{"\\u0001":"\u0001"}'))]),
    ],
  ];
  test.each(harmless)("a conversation of %s can be rendered", async (_what, conversation) => {
    expect((await onThread(conversation)).text).toContain("<|im_start|>user");
  });
});
