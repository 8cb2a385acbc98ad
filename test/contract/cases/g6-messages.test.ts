import { describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
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

test("case 75: the version header is a date", async () => {
  const response = await service.post(MESSAGES, {}, { "anthropic-version": "2026-10-21" });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const wrong = { "vendor-version": "x" };
  await expectRefused({}, /^vendor-version: /, wrong);
  await expectErrorB(await service.post("/v1/messages/count_tokens", {}, wrong), 400, INVALID);
});

test.each([
  ["case 76: no max_tokens", { max_tokens: undefined }, /^max_tokens: Field required/],
  ["case 77: temperature 1.1", { temperature: 1.1 }, /^temperature: /],
  ["case 79: no messages", { messages: [] }, /^messages: /],
  ["case 80: the role tool", { messages: [{ role: "tool", content: "x" }] }, /^messages\.0\.role: /],
  [
    "case 85: a result for an unknown call",
    { messages: [user("hi"), assistant([toolUse]), user([toolResult({ tool_use_id: "toolu_9" })])] },
    /^messages\.2\.content\.0: unexpected `tool_use_id`/,
  ],
  ["case 88a: enabled thinking without a budget", { thinking: { type: "enabled" } }, /^thinking\.budget_tokens: /],
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

test("case 78 (decision 3): a system role among the messages is 400 with the wording that agents match", async () => {
  const messages = [user("hi"), { role: "system", content: "Be brief." }];
  const wording =
    "messages.1.role: Unexpected role 'system'. role 'system' is not supported on this model: " +
    "'system' is not a valid input message role; use the top-level 'system' parameter.";
  // Checked before anything else in the body: the other faults of this one are not reported.
  const bodies = [{ messages }, { messages, max_tokens: undefined, tools: "x", model: 7 }];
  for (const body of bodies) expect(await expectErrorB(await service.post(MESSAGES, body), 400, INVALID)).toBe(wording);
});

const turns = [user("one"), user([text("two")]), assistant("three"), user("four")];

test("case 81 (decision 4): consecutive turns of one role are merged", async () => {
  await service.reply(MESSAGES, { messages: turns });
  expect(outline(service.lastRequest())).toBe('user "one" "two" | assistant "three" | user "four"');
});

test("cases 78 and 81: settings accept a system role in place, and refuse consecutive turns", async () => {
  const formats = { strictAlternation: true, messages: { systemRole: "merge" } };
  const strict = await startScriptedService({ gateway: { formats } });
  try {
    const message = await expectErrorB(await strict.post(MESSAGES, { messages: turns }), 400, INVALID);
    expect(message).toMatch(/^messages\.1\.role: /);
    await strict.reply(MESSAGES, { messages: [user("hi"), { role: "system", content: "Be brief." }] });
    expect(outline(strict.lastRequest())).toBe('user "hi" | system "Be brief."');
  } finally {
    await strict.stop();
  }
});

test("case 82: a last assistant turn is continued, and not repeated", async () => {
  service.play(modelWrites("42)"));
  const reply = await service.reply(MESSAGES, { messages: [user("hi"), assistant("The answer is (")] });
  expect(valueAt(reply, "content")).toEqual([text("42)")]);
  expect(outline(service.lastRequest())).toBe('user "hi" | assistant "The answer is ("');
});

test("case 83: the system text may be blocks, of which the attribution block is left out", async () => {
  const attribution = text("x-anthropic-billing-header: cc_version=2.1; cch=a1b2;");
  await service.reply(MESSAGES, { system: [attribution, text("Be brief.")] });
  expect(outline(service.lastRequest())).toBe('system "Be brief." | user "hi"');
});

test("case 84: a tool's result may hold text and an image", async () => {
  const result = toolResult({ content: [text("see"), image] });
  await service.reply(MESSAGES, { messages: [user("hi"), assistant([toolUse]), user([result])] });
  expect(outline(service.lastRequest())).toBe(
    'user "hi" | assistant call(toolu_1 read {"path":"a.ts"}) | tool result(toolu_1 read "see" image/png 0)',
  );
});

test("case 86: thinking is accepted with any signature", async () => {
  const history = [{ type: "thinking", thinking: "Hm.", signature: "not-ours" }, text("Yes.")];
  await service.reply(MESSAGES, { messages: [user("hi"), assistant(history), user("go on")] });
  expect(outline(service.lastRequest())).toBe('user "hi" | assistant thought "Hm." "Yes." | user "go on"');
});

test("case 87: a block of an unknown kind beside text is left out", async () => {
  await service.reply(MESSAGES, { messages: [user([text("hi"), { type: "hologram", data: "x" }])] });
  expect(outline(service.lastRequest())).toBe('user "hi"');
});

test("case 88: enabled thinking comes before the text, with a signature, and disabled not at all", async () => {
  const thinks = [started(), reasoningStart(0), delta(0, "Hm."), blockEnd(0)];
  service.play(() => [[...thinks, textStart(1), delta(1, "Yes."), blockEnd(1), finished()]]);
  const fields = { thinking: { type: "enabled", budget_tokens: 2_048 }, max_tokens: 4_096 };
  const thinking = { type: "thinking", thinking: "Hm.", signature: expect.stringMatching(/^[A-Za-z0-9+/=_-]+$/) };
  expect(valueAt(await service.reply(MESSAGES, fields), "content")).toEqual([thinking, text("Yes.")]);
  expect(service.lastRequest().reasoning?.budgetTokens).toBe(2_048);
  const without = await service.reply(MESSAGES, { thinking: { type: "disabled" } });
  expect(valueAt(without, "content")).toEqual([text("Yes.")]);
});

test("case 89: disable_parallel_tool_use limits the calls to one", async () => {
  service.play(modelWrites(written("a.ts"), written("b.ts")));
  const content = async (fields: object) => {
    const tool_choice = { type: "any", ...fields };
    return valueAt(await service.reply(MESSAGES, { tools: [readTool], max_tokens: 64, tool_choice }), "content");
  };
  expect(await content({})).toHaveLength(2);
  expect(await content({ disable_parallel_tool_use: true })).toEqual([
    { type: "tool_use", id: expect.stringMatching(/^toolu_/), name: "read", input: { path: "a.ts" } },
  ]);
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

  test("case 92b: a prompt above the window is 400 with both numbers", async () => {
    service.play(() => {
      const facts = { input_tokens: "300001", context_window: "262144" };
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long", facts);
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
  const format = { type: "json_schema", schema: { type: "object" } };
  expect(valueAt(await service.reply(MESSAGES, { output_config: { format } }), "content")).toEqual([text('{"z":1}')]);
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
