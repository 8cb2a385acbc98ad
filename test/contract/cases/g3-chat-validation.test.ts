import { expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { outline } from "../../support/requests/outline.ts";

const CHAT = "/v1/chat/completions";

const service = serviceOfFile();

const user = { role: "user", content: "hi" };
const tool = { type: "function", function: { name: "read", parameters: { type: "object", properties: {} } } };
const call = { id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"a.ts"}' } };
const calling = { role: "assistant", content: null, tool_calls: [call] };
const answered = { role: "tool", tool_call_id: "call_1", content: "file text" };
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

type Refusal = readonly [name: string, fields: object, code: string, param: string];

const REFUSED: readonly Refusal[] = [
  ["case 24: a model outside the catalog", { model: "gpt-4o" }, "model_not_found", "model"],
  ["case 26: no model", { model: undefined }, "missing_required_parameter", "model"],
  ["case 27: no messages", { messages: undefined }, "missing_required_parameter", "messages"],
  ["case 28: empty messages", { messages: [] }, "empty_array", "messages"],
  ["case 29: an unknown role", { messages: [{ role: "foo", content: "x" }] }, "invalid_value", "messages[0].role"],
  ["case 31: max_tokens 0", { max_tokens: 0 }, "integer_below_min_value", "max_tokens"],
  ["case 33: temperature 2.1", { temperature: 2.1 }, "decimal_above_max_value", "temperature"],
  ["case 34: top_p 1.1", { top_p: 1.1 }, "decimal_above_max_value", "top_p"],
  ["case 36: cache_ttl 2h", { cache_ttl: "2h" }, "invalid_value", "cache_ttl"],
  ["case 37: reasoning.effort of no kind", { reasoning: { effort: "huge" } }, "invalid_value", "reasoning.effort"],
  ["case 38: reasoning_effort of no kind", { reasoning_effort: "huge" }, "invalid_value", "reasoning_effort"],
  ["case 40: two choices", { n: 2 }, "unsupported_value", "n"],
  [
    "case 41: a tool of the type custom",
    { tools: [{ type: "custom", custom: { name: "x" } }] },
    "unsupported_value",
    "tools[0].type",
  ],
  [
    "case 43: a choice of a function that is not there",
    { tools: [tool], tool_choice: { type: "function", function: { name: "write" } } },
    "invalid_value",
    "tool_choice",
  ],
  [
    "case 44: a tool message for an unknown call",
    { messages: [user, calling, { ...answered, tool_call_id: "call_9" }] },
    "invalid_value",
    "messages[2].tool_call_id",
  ],
  [
    "case 47: an image for a model without eyes",
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: pixel } }] }] },
    "unsupported_value",
    "messages[0].content[0]",
  ],
  [
    "case 49: an unknown response format",
    { response_format: { type: "xml" } },
    "invalid_value",
    "response_format.type",
  ],
];

test.each(REFUSED)("%s is 400", async (_, fields, code, param) => {
  const before = service.engine.backend.requests.length;
  await expectErrorA(await service.post(CHAT, fields), 400, code, param);
  await expectErrorA(await service.post(CHAT, { ...fields, stream: true }), 400, code, param);
  expect(service.engine.backend.requests).toHaveLength(before);
});

test("case 25: a model of the catalog without access for the key is 404", async () => {
  const key = await service.createKey("--name", "narrow", "--models", "svc-qwen");
  const response = await service.post(CHAT, { model: "svc-glm53" }, { authorization: `Bearer ${key}` });
  await expectErrorA(response, 404, "model_not_found", "model");
});

const ACCEPTED: readonly (readonly [name: string, fields: object, engineSees: object])[] = [
  [
    "case 32: max_completion_tokens wins over max_tokens",
    { max_completion_tokens: 7, max_tokens: 99 },
    { maxOutputTokens: 7 },
  ],
  [
    "case 35: a cache key of 512 characters becomes a digest",
    { prompt_cache_key: "k".repeat(512) },
    { cache: { affinityKey: expect.stringMatching(/^(?!k+$).+/) } },
  ],
  ["case 39: an unknown field is tolerated", { foo: 1 }, { model: "svc-qwen" }],
  ["case 42: no tools with tool_choice auto", { tools: [], tool_choice: "auto" }, { tools: [], toolChoice: undefined }],
  ["case 48: an empty stop is none", { stop: "" }, { sampling: { stop: [] } }],
];

test.each(ACCEPTED)("%s", async (_, fields, engineSees) => {
  await service.reply(CHAT, fields);
  expect(service.lastRequest()).toMatchObject(engineSees);
});

const broken = { ...calling, tool_calls: [{ ...call, function: { name: "read", arguments: "not json" } }] };

test.each([
  [
    "case 30: the role developer is system text",
    [{ role: "developer", content: "Be brief." }, user],
    'system "Be brief." | user "hi"',
  ],
  [
    "case 45: a call with null content and its answer both reach the model",
    [user, calling, answered],
    'user "hi" | assistant call(call_1 read {"path":"a.ts"}) | tool result(call_1 read "file text")',
  ],
  [
    "case 46: arguments in the history that are not JSON are accepted",
    [user, broken, answered],
    'user "hi" | assistant call(call_1 read not json) | tool result(call_1 read "file text")',
  ],
])("%s", async (_, messages, expected) => {
  await service.reply(CHAT, { messages });
  expect(outline(service.lastRequest())).toBe(expected);
});

test.each([false, true])("case 50: a prompt above the window is 400 with both numbers, stream %s", async (stream) => {
  service.play(() => {
    const facts = { input_tokens: "300001", context_window: "262144" };
    throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long", facts);
  });
  const message = await expectErrorA(await service.post(CHAT, { stream }), 400, "context_length_exceeded", "messages");
  for (const words of ["300001", "262144", "maximum context length", "prompt is too long"])
    expect(message).toContain(words);
});
