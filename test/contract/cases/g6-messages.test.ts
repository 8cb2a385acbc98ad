import { describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { FinishReason, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { modelWrites } from "../../support/engine/model-writes.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textAnswer,
  textStart,
} from "../../support/events/events.ts";
import { serviceOfFile, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { expectErrorB } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { outline } from "../../support/requests/outline.ts";

const MESSAGES = "/v1/messages";
const INVALID = "invalid_request_error";

const service = serviceOfFile({ engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] } });

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const text = (words: string) => ({ type: "text", text: words });
const readTool = { name: "read", input_schema: { type: "object", properties: {} } };
const toolUse = { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a.ts" } };
const toolResult = (fields: object = {}) => ({
  type: "tool_result",
  tool_use_id: "toolu_1",
  content: "file",
  ...fields,
});
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: pixel } };
const written = (path: string) => `<tool_call>\n{"name": "read", "arguments": {"path": "${path}"}}\n</tool_call>\n`;

async function expectRefused(fields: object, message: RegExp, headers: Record<string, string> = {}): Promise<void> {
  for (const stream of [false, true]) {
    const response = await service.post(MESSAGES, { ...fields, stream }, headers);
    expect(await expectErrorB(response, 400, INVALID)).toMatch(message);
  }
}

test("case 74: a plain reply has all its fields, and no citations", async () => {
  expect(await service.reply(MESSAGES)).toEqual({
    id: expect.stringMatching(/^msg_[A-Za-z0-9]{24,32}$/),
    type: "message",
    role: "assistant",
    model: "svc-qwen",
    content: [text("Hello.")],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: {
      input_tokens: 12,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: 7,
      service_tier: "standard",
    },
  });
});

describe("case 75: the version header", () => {
  test.each([
    ["case 75a: may be absent", {}],
    ["case 75b: may be the vendor's newest", { "anthropic-version": "2026-10-21" }],
    ["case 75c: may have the neutral name", { "vendor-version": "2023-06-01" }],
    ["case 75d: is read by its neutral name first", { "vendor-version": "2023-06-01", "anthropic-version": "x" }],
  ])("of the version header, %s", async (_, headers) => {
    const response = await service.post(MESSAGES, {}, headers);
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  });

  test.each([
    ["case 75e: is 400 when it is no date", { "vendor-version": "x" }],
    ["case 75f: is 400 under its other name too", { "anthropic-version": "2026-10" }],
  ])("of a wrong version header, %s", async (_, headers) => {
    await expectRefused({}, new RegExp(`^${Object.keys(headers)[0]}: `), headers);
    const count = await service.post("/v1/messages/count_tokens", {}, headers);
    await expectErrorB(count, 400, INVALID);
  });
});

test.each([
  ["case 76a: no max_tokens", { max_tokens: undefined }, /^max_tokens: Field required/],
  ["case 76b: max_tokens 0", { max_tokens: 0 }, /^max_tokens: /],
  ["case 77a: temperature 1.1", { temperature: 1.1 }, /^temperature: /],
  ["case 79: no messages", { messages: [] }, /^messages: /],
  ["case 80: the role tool", { messages: [{ role: "tool", content: "x" }] }, /^messages\.0\.role: /],
  [
    "case 85: a result for an unknown call",
    { messages: [user("hi"), assistant([toolUse]), user([toolResult({ tool_use_id: "toolu_9" })])] },
    /^messages\.2\.content\.0: unexpected `tool_use_id`/,
  ],
  ["case 88a: enabled thinking without a budget", { thinking: { type: "enabled" } }, /^thinking\.budget_tokens: /],
  ["case 88b: a budget of 0", { thinking: { type: "enabled", budget_tokens: 0 } }, /^thinking\.budget_tokens: /],
  ["case 88c: an unknown kind of thinking", { thinking: { type: "deep" } }, /^thinking\.type: /],
  [
    "case 89a: a choice of a tool that is not there",
    { tools: [readTool], tool_choice: { type: "tool", name: "write" } },
    /^tool_choice\.name: /,
  ],
  [
    "case 90: a vendor's tool without a schema",
    { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 8 }] },
    /^tools\.0\.input_schema: Field required.*web_search/,
  ],
])("%s is 400", async (_, fields, message) => {
  await expectRefused(fields, message);
});

test("case 77b: temperature 1 is the maximum", async () => {
  await service.reply(MESSAGES, { temperature: 1 });
  expect(service.lastRequest().sampling?.temperature).toBe(1);
});

test("case 78 (decision 3): a system role among the messages is 400 with the wording that agents match", async () => {
  const messages = [user("hi"), { role: "system", content: "Be brief." }];
  const wording =
    "messages.1.role: Unexpected role 'system'. role 'system' is not supported on this model: " +
    "'system' is not a valid input message role; use the top-level 'system' parameter.";
  // Checked before anything else in the body: the other faults of this one are not reported.
  const bodies = [{ messages }, { messages, max_tokens: undefined, tools: "x", model: 7 }];
  for (const body of bodies) expect(await expectErrorB(await service.post(MESSAGES, body), 400, INVALID)).toBe(wording);
});

describe("case 81: consecutive turns of one role", () => {
  const messages = [user("one"), user([text("two")]), assistant("three"), user("four")];

  test("case 81a (decision 4): are merged", async () => {
    await service.reply(MESSAGES, { messages });
    expect(outline(service.lastRequest())).toBe('user "one" "two" | assistant "three" | user "four"');
  });

  test("case 81b (decision 4): are 400 under strictAlternation", async () => {
    const strict = await startScriptedService({ gateway: { formats: { strictAlternation: true } } });
    try {
      const message = await expectErrorB(await strict.post(MESSAGES, { messages }), 400, INVALID);
      expect(message).toMatch(/^messages\.1\.role: /);
    } finally {
      await strict.stop();
    }
  });

  test("case 78b (decision 3): a system role is accepted in place under systemRole: merge", async () => {
    const merging = await startScriptedService({ gateway: { formats: { messages: { systemRole: "merge" } } } });
    try {
      const turns = [
        { role: "user", content: "hi" },
        { role: "system", content: "Be brief." },
      ];
      expect((await merging.post(MESSAGES, { messages: turns })).status).toBe(200);
      expect(outline(merging.lastRequest())).toBe('user "hi" | system "Be brief."');
    } finally {
      await merging.stop();
    }
  });
});

test("case 82: a last assistant turn is continued, and not repeated", async () => {
  service.play(modelWrites("42)"));
  const reply = await service.reply(MESSAGES, { messages: [user("hi"), assistant("The answer is (")] });
  expect(valueAt(reply, "content")).toEqual([text("42)")]);
  expect(outline(service.lastRequest())).toBe('user "hi" | assistant "The answer is ("');
});

test("case 83: the system text is the same prompt as a string and as blocks, whatever the attribution block", async () => {
  const attribution = (hash: string) => text(`x-anthropic-billing-header: cc_version=2.1; cch=${hash};`);
  for (const system of [
    "Be brief.",
    [text("Be brief.")],
    ...["a1b2", "c3d4"].map((hash) => [attribution(hash), text("Be brief.")]),
  ]) {
    await service.reply(MESSAGES, { system });
    expect(outline(service.lastRequest())).toBe('system "Be brief." | user "hi"');
  }
});

test.each([
  ["case 84a: a tool's result may be text", toolResult(), 'result(toolu_1 read "file")'],
  [
    "case 84b: a tool's result may hold text and an image",
    toolResult({ content: [text("see"), image] }),
    'result(toolu_1 read "see" image/png 0)',
  ],
  ["case 84c: a tool's error is marked for the engine", toolResult({ is_error: true }), 'failure(toolu_1 read "file")'],
])("%s", async (_, result, expected) => {
  await service.reply(MESSAGES, { messages: [user("hi"), assistant([toolUse]), user([result])] });
  const call = 'assistant call(toolu_1 read {"path":"a.ts"})';
  expect(outline(service.lastRequest())).toBe(`user "hi" | ${call} | tool ${expected}`);
});

test("case 86: thinking is accepted with any signature or none, and redacted, even alone", async () => {
  const redacted = { type: "redacted_thinking", data: "x" };
  const foreign = { type: "thinking", thinking: "Hm.", signature: "not-ours" };
  const history = [foreign, { type: "thinking", thinking: "Aha." }, redacted, text("Yes.")];
  const messages = [user("hi"), assistant(history), user("go on"), assistant([redacted]), user("more")];
  await service.reply(MESSAGES, { messages });
  expect(outline(service.lastRequest())).toBe(
    'user "hi" | assistant thought "Hm." thought "Aha." "Yes." | user "go on" | assistant | user "more"',
  );
});

test("case 87: a block of an unknown kind beside text is left out", async () => {
  await service.reply(MESSAGES, { messages: [user([text("hi"), { type: "hologram", data: "x" }])] });
  expect(outline(service.lastRequest())).toBe('user "hi"');
});

describe("case 88: thinking", () => {
  const thinks = () => [
    [
      started(),
      reasoningStart(0),
      delta(0, "Hm."),
      blockEnd(0),
      textStart(1),
      delta(1, "Yes."),
      blockEnd(1),
      finished(),
    ],
  ];
  const blocksFor = async (thinking: object, maxTokens = 4_096) => {
    service.play(thinks);
    return valueAt(await service.reply(MESSAGES, { thinking, max_tokens: maxTokens }), "content");
  };
  const thinking = { type: "thinking", thinking: "Hm.", signature: expect.stringMatching(/^[A-Za-z0-9+/=_-]+$/) };

  test.each([
    ["case 88d: a budget inside the bound", { type: "enabled", budget_tokens: 2_048 }, 2_048],
    ["case 88e (decision 23): a small budget", { type: "enabled", budget_tokens: 1_023 }, 1_023],
    ["case 88f (decision 23): a budget above max_tokens is clamped", { type: "enabled", budget_tokens: 9_999 }, 4_095],
    ["case 88g: adaptive has no budget", { type: "adaptive" }, undefined],
  ])("%s gives thinking before text", async (_, fields, budget) => {
    expect(await blocksFor(fields)).toEqual([thinking, text("Yes.")]);
    const { reasoning } = service.lastRequest();
    expect([reasoning?.mode, reasoning?.budgetTokens]).toEqual([ReasoningMode.ENABLED, budget]);
  });

  test("case 88h: disabled gives none", async () => {
    expect(await blocksFor({ type: "disabled" })).toEqual([text("Yes.")]);
    expect(service.lastRequest().reasoning?.mode).toBe(ReasoningMode.DISABLED);
  });
});

describe("case 89: the choice of tools", () => {
  const both = [readTool, { ...readTool, name: "write" }];

  test.each([
    ["case 89b", { type: "auto" }, { mode: ToolChoiceMode.AUTO }],
    ["case 89c", { type: "any" }, { mode: ToolChoiceMode.REQUIRED }],
    ["case 89d", { type: "tool", name: "write" }, { mode: ToolChoiceMode.NAMED, name: "write" }],
    ["case 89e", { type: "none" }, { mode: ToolChoiceMode.NONE }],
  ])("%s: $type reaches the engine", async (_, choice, engineSees) => {
    await service.reply(MESSAGES, { tools: both, tool_choice: choice });
    expect(service.lastRequest().toolChoice).toMatchObject(engineSees);
  });

  test("case 89f: disable_parallel_tool_use limits the calls to one", async () => {
    service.play(modelWrites(written("a.ts"), written("b.ts")));
    const content = async (fields: object) =>
      valueAt(
        await service.reply(MESSAGES, { tools: both, max_tokens: 64, tool_choice: { type: "any", ...fields } }),
        "content",
      );
    expect(await content({})).toHaveLength(2);
    expect(await content({ disable_parallel_tool_use: true })).toEqual([
      { type: "tool_use", id: expect.stringMatching(/^toolu_/), name: "read", input: { path: "a.ts" } },
    ]);
  });
});

test("case 91: a stop sequence is named and left out of the text", async () => {
  service.play(modelWrites("one EN", "D two"));
  const reply = await service.reply(MESSAGES, { stop_sequences: ["END", "FIN"] });
  expect(reply).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "END", content: [text("one ")] });
});

describe("case 92: out of tokens", () => {
  test("case 92a: the token limit is max_tokens", async () => {
    service.play(modelWrites("one ", "two"));
    const reply = await service.reply(MESSAGES, { max_tokens: 1 });
    expect(reply).toMatchObject({ stop_reason: "max_tokens", stop_sequence: null, content: [text("one ")] });
  });

  test("case 92b: a full window has its own reason", async () => {
    service.play(() => [
      [started(), textStart(0), delta(0, "one"), blockEnd(0, false), finished(FinishReason.CONTEXT_WINDOW)],
    ]);
    expect(await service.reply(MESSAGES)).toMatchObject({ stop_reason: "model_context_window_exceeded" });
  });

  test("case 92c: a prompt above the window is 400 with both numbers", async () => {
    service.play(() => {
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long", {
        input_tokens: "300001",
        context_window: "262144",
      });
    });
    await expectRefused({}, /^prompt is too long: 300001 tokens > 262144 maximum$/);
  });
});

test("case 93: the three input counters add up to the prompt", async () => {
  const usage = { inputTokens: 100, cachedInputTokens: 64, cacheWriteTokens: 20 };
  service.play(() => [[started({ inputTokens: 100 }), finished(FinishReason.STOP, usage)]]);
  expect(valueAt(await service.reply(MESSAGES), "usage")).toMatchObject({
    input_tokens: 16,
    cache_read_input_tokens: 64,
    cache_creation_input_tokens: 20,
  });
});

test("case 94: an unknown top-level field is ignored", async () => {
  expect(await service.reply(MESSAGES, { foo: { bar: 1 }, service_tier: "auto" })).toMatchObject({ type: "message" });
});

test("case 95: output_config.format constrains the engine, and its object is the text", async () => {
  service.play((request) => [textAnswer(request.outputConstraint?.kind?.$case === "jsonSchema" ? '{"z":1}' : "prose")]);
  const schema = {
    type: "object",
    properties: { z: { type: "integer" } },
    required: ["z"],
    additionalProperties: false,
  };
  const reply = await service.reply(MESSAGES, { output_config: { format: { type: "json_schema", schema } } });
  expect(JSON.parse(String(valueAt(reply, "content", 0, "text")))).toEqual({ z: 1 });
  expect(service.lastRequest().outputConstraint?.kind?.value).toMatchObject({ schemaJson: JSON.stringify(schema) });
});

test("case 96a: overload is 529 with a retry delay", async () => {
  service.play(() => {
    throw new EngineError("QUEUE_FULL", "full");
  });
  for (const stream of [false, true]) {
    const response = await service.post(MESSAGES, { stream });
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    await expectErrorB(response, 529, "overloaded_error");
  }
});
