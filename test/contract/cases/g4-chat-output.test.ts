import { expect, test } from "vitest";
import { modelWrites } from "../../support/engine/model-writes.ts";
import { textAnswer } from "../../support/events/events.ts";
import { transcript } from "../../support/events/transcripts.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { valueAt } from "../../support/http/value-at.ts";

const CHAT = "/v1/chat/completions";

const service = serviceOfFile();

const choiceOf = (reply: unknown) => valueAt(reply, "choices", 0);
const contentOf = (reply: unknown) => valueAt(choiceOf(reply), "message", "content");

const tool = { type: "function", function: { name: "read", parameters: { type: "object", properties: {} } } };
const written = (path: string) => `<tool_call>\n{"name": "read", "arguments": {"path": "${path}"}}\n</tool_call>\n`;

test("case 51: a plain reply has all its fields, and no tool_calls", async () => {
  service.play(() => [textAnswer("Hel", "lo.")]);
  const reply = await service.reply(CHAT);
  expect(reply).toMatchObject({
    id: expect.stringMatching(/^chatcmpl-[A-Za-z0-9]{24,32}$/),
    object: "chat.completion",
  });
  expect(Object.keys(reply as object)).toEqual(["id", "object", "created", "model", "choices", "usage"]);
  expect(valueAt(choiceOf(reply), "message")).toEqual({ role: "assistant", content: "Hello.", refusal: null });
});

test("case 52: tool calls have null content, their own ids and arguments as text", async () => {
  service.play(modelWrites(written("a.ts"), written("b.ts")));
  const { content, tool_calls: calls } = valueAt(choiceOf(await service.reply(CHAT, { tools: [tool] })), "message") as {
    readonly content: unknown;
    readonly tool_calls: readonly { readonly id: string; readonly function: object }[];
  };
  expect(content).toBeNull();
  expect(calls.map((call) => call.function)).toEqual(
    ["a.ts", "b.ts"].map((path) => ({ name: "read", arguments: `{"path": "${path}"}` })),
  );
  expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
});

test("case 53: the token limit ends the reply with length", async () => {
  service.play(modelWrites("one ", "two ", "three"));
  const reply = await service.reply(CHAT, { max_tokens: 2 });
  expect(choiceOf(reply)).toMatchObject({ finish_reason: "length", message: { content: "one two " } });
  expect(valueAt(reply, "usage", "completion_tokens")).toBe(2);
});

test("case 54: the stop string ends the text and is left out", async () => {
  service.play(modelWrites("Keep this E", "N", "D not this"));
  const reply = await service.reply(CHAT, { stop: "END" });
  expect(choiceOf(reply)).toMatchObject({ finish_reason: "stop", message: { content: "Keep this " } });
});

test("cases 55 and 58: reasoning has its own field and is counted, and the prompt's tokens hold those of the cache", async () => {
  service.play(transcript("reasoning_then_text"));
  const reply = await service.reply(CHAT);
  expect(valueAt(choiceOf(reply), "message")).toMatchObject({ content: "Done.", reasoning_content: "First look." });
  expect(valueAt(reply, "usage")).toMatchObject({
    prompt_tokens: 40,
    prompt_tokens_details: { cached_tokens: 32 },
    completion_tokens_details: { reasoning_tokens: 5 },
  });
});

test("case 56: json_object constrains the engine, and its object is the content", async () => {
  service.play((request) => [textAnswer(request.outputConstraint?.kind?.$case === "jsonObject" ? '{"a":1}' : "prose")]);
  const reply = await service.reply(CHAT, { response_format: { type: "json_object" } });
  expect(JSON.parse(String(contentOf(reply)))).toEqual({ a: 1 });
});

test("case 57: json_schema constrains the engine to the schema as sent", async () => {
  const schema = { type: "object", properties: { z: { type: "integer" }, a: { type: "string" } }, required: ["z"] };
  service.play((request) => [textAnswer(request.outputConstraint?.kind?.$case === "jsonSchema" ? '{"z":1}' : "prose")]);
  const format = { type: "json_schema", json_schema: { name: "out", strict: true, schema } };
  const reply = await service.reply(CHAT, { response_format: format });
  expect(JSON.parse(String(contentOf(reply)))).toEqual({ z: 1 });
  expect(service.lastRequest().outputConstraint?.kind).toEqual({
    $case: "jsonSchema",
    value: { name: "out", strict: true, schemaJson: JSON.stringify(schema) },
  });
});

test("case 59: without parallel calls there is one, though the model generates two", async () => {
  service.play(modelWrites(written("a.ts"), written("b.ts")));
  const choice = choiceOf(await service.reply(CHAT, { tools: [tool], parallel_tool_calls: false }));
  expect(valueAt(choice, "message", "tool_calls")).toHaveLength(1);
  expect(valueAt(choice, "finish_reason")).toBe("tool_calls");
});

test("case 60: the content type is JSON and created is in whole seconds", async () => {
  const before = Math.floor(Date.now() / 1000);
  const response = await service.post(CHAT);
  expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
  const created = Number(valueAt(await response.json(), "created"));
  expect(Number.isInteger(created)).toBe(true);
  expect(created).toBeGreaterThanOrEqual(before);
  expect(created).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000));
});
