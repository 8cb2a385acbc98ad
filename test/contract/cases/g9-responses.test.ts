import { describe, expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import { modelWrites } from "../../support/engine/model-writes.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textAnswer,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { serviceOfFile, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { outline } from "../../support/requests/outline.ts";

const RESPONSES = "/v1/responses";

const service = serviceOfFile();

const tool = { type: "function", name: "read", parameters: { type: "object", properties: {} }, strict: false };
const call = { type: "function_call", call_id: "call_1", name: "read", arguments: '{"path":"a.ts"}' };
const output = { type: "function_call_output", call_id: "call_1", output: "file" };
const user = { role: "user", content: "hi" };

async function expectRefused(fields: object, code: string, param: string): Promise<void> {
  for (const stream of [false, true])
    await expectErrorA(await service.post(RESPONSES, { ...fields, stream }), 400, code, param);
}

test("case 109: a plain reply has all its fields", async () => {
  expect(await service.reply(RESPONSES)).toEqual({
    id: expect.stringMatching(/^resp_[A-Za-z0-9]{24,32}$/),
    object: "response",
    created_at: expect.any(Number),
    completed_at: expect.any(Number),
    status: "completed",
    background: false,
    error: null,
    frequency_penalty: 0,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: {},
    model: "svc-qwen",
    output: [
      {
        id: expect.stringMatching(/^msg_/),
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "Hello.", annotations: [], logprobs: [] }],
      },
    ],
    output_text: "Hello.",
    parallel_tool_calls: true,
    presence_penalty: 0,
    previous_response_id: null,
    prompt_cache_key: null,
    prompt_cache_retention: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    service_tier: "default",
    store: false,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_logprobs: 0,
    top_p: 1,
    truncation: "disabled",
    usage: {
      input_tokens: 12,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 19,
    },
    user: null,
  });
});

test.each(["svc/qwen", "svc/svc-qwen", "svc-qwen"])("case 110 (decision 9): %s is svc-qwen", async (model) => {
  expect(valueAt(await service.reply(RESPONSES, { model }), "model")).toBe("svc-qwen");
  expect(service.lastRequest().model).toBe("svc-qwen");
});

test("case 110b (decision 9): the slash form is not a model of the other formats", async () => {
  await expectErrorA(
    await service.post("/v1/chat/completions", { model: "svc/qwen" }),
    400,
    "model_not_found",
    "model",
  );
});

test.each([
  ["store", true, "unsupported_value"],
  ["background", true, "unsupported_value"],
  ["previous_response_id", "x", "unsupported_parameter"],
  ["conversation", "c", "unsupported_parameter"],
  ["prompt", { id: "p" }, "unsupported_parameter"],
  ["truncation", "auto", "unsupported_value"],
  ["include", ["file_search_call.results"], "unsupported_value"],
])("case 111: %s %j is 400", async (key, value, code) => {
  await expectRefused({ [key]: value }, code, key);
});

test.each([
  ["null", null, null, null],
  ["neutral", false, "disabled", "default"],
])("case 112: the same fields are accepted when they are %s", async (_, off, truncation, tier) => {
  const fields = {
    store: off,
    background: off,
    previous_response_id: null,
    conversation: null,
    prompt: null,
    truncation,
    service_tier: tier,
    include: off === null ? null : [],
  };
  expect(await service.reply(RESPONSES, fields)).toMatchObject({ status: "completed", store: false });
});

describe("case 113: unknown keys", () => {
  test("case 113a: are 400 at the top level", async () => {
    await expectRefused({ stop: ["x"] }, "unknown_parameter", "stop");
  });

  test.each([
    [{ text: { foo: 1 } }, "text.foo"],
    [{ reasoning: { foo: 1 } }, "reasoning.foo"],
    [{ text: { format: { type: "text", foo: 1 } } }, "text.format.foo"],
    [{ stream_options: { foo: 1 } }, "stream_options.foo"],
  ])("case 113d: %j is 400 with its path", async (fields, param) => {
    await expectRefused(fields, "unknown_parameter", param);
  });

  test("case 113b: client_metadata is accepted", async () => {
    const reply = await service.reply(RESPONSES, { client_metadata: {} });
    expect(reply).not.toHaveProperty("client_metadata");
  });

  test("case 113c: are ignored inside an item", async () => {
    await service.reply(RESPONSES, { input: [{ ...user, internal_note: { a: 1 } }] });
    expect(service.lastRequest().messages).toHaveLength(1);
  });
});

describe("case 114: tools that are not functions", () => {
  const types = ["web_search", "file_search", "computer_use_preview"];

  test.each(types)("case 114a: %s is 400", async (type) => {
    await expectRefused({ tools: [{ type }] }, "unsupported_value", "tools[0].type");
  });

  test("case 114b: are left out under unsupportedTools: skip", async () => {
    const formats = { responses: { unsupportedTools: "skip" } };
    const lenient = await startScriptedService({ gateway: { formats } });
    try {
      const reply = await lenient.reply(RESPONSES, { tools: [...types.map((type) => ({ type })), tool] });
      expect(valueAt(reply, "tools")).toHaveLength(1);
      expect(lenient.lastRequest().tools.map(({ name }) => name)).toEqual(["read"]);
    } finally {
      await lenient.stop();
    }
  });
});

describe("case 115: function tools", () => {
  test("case 115a: are flat", async () => {
    const reply = await service.reply(RESPONSES, { tools: [tool] });
    expect(valueAt(reply, "tools", 0)).toMatchObject(tool);
    expect(service.lastRequest().tools).toMatchObject([{ name: "read" }]);
  });

  test("case 115b: are 400 in the nested form of the other format", async () => {
    const nested = { type: "function", function: { name: "read", parameters: {} } };
    await expectRefused({ tools: [nested] }, "missing_required_parameter", "tools[0].name");
  });
});

test.each([false, true])("a custom tool is called with free text, stream %s", async (stream) => {
  const custom = { type: "custom", name: "exec", description: null, format: { type: "text" } };
  const pieces = ['{"input": "a\\', 'nb"}'].map((piece) => delta(0, piece));
  service.play(() => [[started(), toolCallStart(0, "exec", "c"), ...pieces, blockEnd(0), finished()]]);
  const item = { type: "custom_tool_call", call_id: "call_c", name: "exec", input: "a\nb" };
  const fields = { tools: [custom], tool_choice: { type: "custom", name: "exec" } };
  if (stream) {
    const text = await (await service.post(RESPONSES, { ...fields, stream })).text();
    const done = framesOf(text).find(({ event }) => event === "response.output_item.done");
    expect(valueAt(done?.data, "item")).toMatchObject(item);
  } else expect(await service.reply(RESPONSES, fields)).toMatchObject({ tools: [custom], output: [item] });
  expect(service.lastRequest().toolChoice).toMatchObject({ name: "exec" });
  await service.reply(RESPONSES, {
    ...fields,
    input: [user, item, { type: "custom_tool_call_output", call_id: "call_c", output: "done" }],
  });
  expect(outline(service.lastRequest())).toBe(
    'user "hi" | assistant call(call_c exec {"input": "a\\nb"}) | tool result(call_c exec "done")',
  );
});

describe("case 116: the tool loop", () => {
  test.each([
    ["case 116a: with text", "file"],
    ["case 116b: with parts", [{ type: "input_text", text: "file" }]],
  ])("%s", async (_, value) => {
    await service.reply(RESPONSES, { input: [user, call, { ...output, output: value }] });
    expect(outline(service.lastRequest())).toBe(
      'user "hi" | assistant call(call_1 read {"path":"a.ts"}) | tool result(call_1 read "file")',
    );
  });

  test("case 116c: an output is missing", async () => {
    await expectRefused({ input: [user, call] }, "invalid_value", "input[1].call_id");
  });

  test("case 116d: an output is for an unknown call", async () => {
    const input = [user, call, output, { ...output, call_id: "call_9" }];
    await expectRefused({ input }, "invalid_value", "input[3].call_id");
  });

  test("case 116e: a reference needs a server with state", async () => {
    const input = [user, { type: "item_reference", id: "rs_1" }];
    await expectRefused({ input }, "unsupported_value", "input[1].type");
  });
});

test.each([
  ["case 117a: sealed reasoning that comes back is opened", (sealed: string) => sealed, ' thought "Hm."'],
  ["case 117b: reasoning that another service has sealed is dropped", () => "gAAAAABforeign", ""],
])("%s", async (_, returned, thought) => {
  const thinks = [started(), reasoningStart(0), delta(0, "Hm."), blockEnd(0)];
  service.play(() => [[...thinks, textStart(1), delta(1, "Yes."), blockEnd(1), finished()]]);
  const reply = await service.reply(RESPONSES, { include: ["reasoning.encrypted_content"] });
  const sealed = String(valueAt(reply, "output", 0, "encrypted_content"));
  expect(sealed).not.toContain("Hm.");
  const item = { type: "reasoning", summary: [], encrypted_content: returned(sealed) };
  await service.reply(RESPONSES, { input: [user, item, { role: "assistant", content: "Yes." }, user] });
  expect(outline(service.lastRequest())).toBe(`user "hi" | assistant${thought} "Yes." | user "hi"`);
});

test("case 118: the token limit makes the reply and its item incomplete", async () => {
  service.play(modelWrites("one ", "two"));
  expect(await service.reply(RESPONSES, { max_output_tokens: 1 })).toMatchObject({
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
    completed_at: null,
    output: [{ type: "message", status: "incomplete", content: [{ text: "one " }] }],
    output_text: "one ",
  });
});

describe("case 119: text.format", () => {
  const schema = {
    type: "object",
    properties: { z: { type: "integer" } },
    required: ["z"],
    additionalProperties: false,
  };

  test("case 119a: json_schema constrains the engine, and its object is the text", async () => {
    service.play((request) => [
      textAnswer(request.outputConstraint?.kind?.$case === "jsonSchema" ? '{"z":1}' : "prose"),
    ]);
    const format = { type: "json_schema", name: "out", schema, strict: true };
    const reply = await service.reply(RESPONSES, { text: { format } });
    expect(JSON.parse(String(valueAt(reply, "output_text")))).toEqual({ z: 1 });
    expect(valueAt(reply, "text", "format")).toMatchObject(format);
    expect(service.lastRequest().outputConstraint?.kind?.value).toMatchObject({ schemaJson: JSON.stringify(schema) });
  });

  test("case 119b: an unknown type is 400", async () => {
    await expectRefused({ text: { format: { type: "grammar" } } }, "invalid_value", "text.format.type");
  });
});

test("case 120: empty input is 400", async () => {
  await expectRefused({ input: [] }, "empty_array", "input");
  await expectRefused({ input: "" }, "invalid_value", "input");
});

test("case 121: temperature 2.1 is 400", async () => {
  await expectRefused({ temperature: 2.1 }, "decimal_above_max_value", "temperature");
});

test.each(["GET", "DELETE"])("case 122: %s of a response is 404, as none is stored", async (method) => {
  const headers = { authorization: `Bearer ${service.gateway.key}` };
  const response = await fetch(`${service.gateway.baseUrl}${RESPONSES}/resp_x`, { method, headers });
  await expectErrorA(response, 404, "unknown_url", null);
});

test("the reply shows the engine's sampling", async () => {
  const sampling = { temperature: 0.7, topP: 0.8, stop: [], logitBias: {} };
  service.play(() => [[started({ sampling }), finished()]]);
  expect(await service.reply(RESPONSES, { temperature: 0.7 })).toMatchObject({ temperature: 0.7, top_p: 0.8 });
});

test("case 92d: a full window is incomplete for max_output_tokens", async () => {
  service.play(() => [
    [started(), textStart(0), delta(0, "one"), blockEnd(0, false), finished(FinishReason.CONTEXT_WINDOW)],
  ]);
  expect(await service.reply(RESPONSES)).toMatchObject({
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
  });
});
