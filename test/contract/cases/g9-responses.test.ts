import { expect, test } from "vitest";
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
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
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

test("case 111: what needs a server with state is 400", async () => {
  await expectRefused({ store: true }, "unsupported_value", "store");
});

test("case 112: the same fields are accepted when they are neutral", async () => {
  const fields = { store: false, background: false, prompt: null, truncation: "disabled", include: [] };
  expect(await service.reply(RESPONSES, fields)).toMatchObject({ status: "completed", store: false });
});

test("case 113: an unknown key is 400 at the top level", async () => {
  await expectRefused({ stop: ["x"] }, "unknown_parameter", "stop");
});

test("case 114: a tool that is not a function is 400", async () => {
  await expectRefused({ tools: [{ type: "web_search" }] }, "unsupported_value", "tools[0].type");
});

test("case 115: function tools are flat", async () => {
  expect(valueAt(await service.reply(RESPONSES, { tools: [tool] }), "tools", 0)).toMatchObject(tool);
  expect(service.lastRequest().tools).toMatchObject([{ name: "read" }]);
});

test("case 116: a call and its output reach the model, and a call needs one", async () => {
  await service.reply(RESPONSES, { input: [user, call, output] });
  expect(outline(service.lastRequest())).toBe(
    'user "hi" | assistant call(call_1 read {"path":"a.ts"}) | tool result(call_1 read "file")',
  );
  await expectRefused({ input: [user, call] }, "invalid_value", "input[1].call_id");
});

test("case 117: sealed reasoning that comes back is opened", async () => {
  const thinks = [started(), reasoningStart(0), delta(0, "Hm."), blockEnd(0)];
  service.play(() => [[...thinks, textStart(1), delta(1, "Yes."), blockEnd(1), finished()]]);
  const reply = await service.reply(RESPONSES, { include: ["reasoning.encrypted_content"] });
  const sealed = String(valueAt(reply, "output", 0, "encrypted_content"));
  expect(sealed).not.toContain("Hm.");
  const item = { type: "reasoning", summary: [], encrypted_content: sealed };
  await service.reply(RESPONSES, { input: [user, item, { role: "assistant", content: "Yes." }, user] });
  expect(outline(service.lastRequest())).toBe('user "hi" | assistant thought "Hm." "Yes." | user "hi"');
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

test("case 119: a json_schema of text.format constrains the engine, and its object is the text", async () => {
  service.play((request) => [textAnswer(request.outputConstraint?.kind?.$case === "jsonSchema" ? '{"z":1}' : "prose")]);
  const format = { type: "json_schema", name: "out", schema: { type: "object" }, strict: true };
  expect(valueAt(await service.reply(RESPONSES, { text: { format } }), "output_text")).toBe('{"z":1}');
});

test("case 120: empty input is 400", async () => {
  await expectRefused({ input: [] }, "empty_array", "input");
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
