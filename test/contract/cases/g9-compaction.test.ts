import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { textAnswer } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";

const RESPONSES = "/v1/responses";
const COMPACT = "/v1/responses/compact";
const SUMMARY = "The user wants a.ts read. It is read.";

const service = serviceOfFile({}, () => [textAnswer(SUMMARY)]);

const user = { type: "message", role: "user", content: [{ type: "input_text", text: "Read a.ts." }] };
const call = { type: "function_call", call_id: "call_1", name: "read", arguments: "{}", status: "completed" };
const output = { type: "function_call_output", call_id: "call_1", output: "x" };

/** The body of an agent's compaction in the middle of its turn: the turn's own, and a trigger. */
const asked = {
  input: [
    { type: "message", role: "developer", content: [{ type: "input_text", text: "Be brief." }] },
    user,
    call,
    output,
    { type: "compaction_trigger" },
  ],
  tools: [{ type: "function", name: "read", parameters: { type: "object", properties: {} }, strict: false }],
  tool_choice: "auto",
  parallel_tool_calls: true,
  reasoning: { summary: "auto" },
  include: ["reasoning.encrypted_content"],
  store: false,
};

type Item = { readonly type: string; readonly encrypted_content: string };

/** The item of a compaction of a conversation, made for the key of the service or another one. */
async function compacted(headers = {}): Promise<Item> {
  const response = await service.post(COMPACT, { input: [user] }, headers);
  const { output: items } = (await response.json()) as { output: readonly Item[] };
  const item = items.at(-1);
  if (item?.type !== "compaction") throw new Error("the last item is no compaction");
  return item;
}

function textsOf(messages: readonly { readonly parts: readonly object[] }[]): string {
  return JSON.stringify(messages.map(({ parts }) => parts));
}

test("a trigger is answered with the whole stream of one compaction item, which is accepted later", async () => {
  const stream = await service.stream(RESPONSES, asked);
  expect([...stream.matchAll(/^event: (\S+)$/gm)].map(([, type]) => type)).toEqual([
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.output_item.done",
    "response.completed",
  ]);
  expect(stream).not.toContain(SUMMARY);
  const done = /"type":"response.output_item.done".*?"item":(\{.*?\})/.exec(stream)?.[1] ?? "";
  await service.reply(RESPONSES, { ...asked, input: [user, JSON.parse(done)] });
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
});

test("the compaction endpoint answers with the user's messages, the item and the usage", async () => {
  const reply = await service.reply(COMPACT, { input: [user, call, output], instructions: "Be brief." });
  expect(reply).toMatchObject({
    object: "response.compaction",
    output: [user, { type: "compaction" }],
    usage: { input_tokens: expect.any(Number) },
  });
  await service.reply(RESPONSES, { input: valueAt(reply, "output") });
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
});

test("a conversation large enough for a thread is compacted again in the same way", async () => {
  const input = [user, await compacted(), { role: "assistant", content: "x".repeat(600_000) }, user];
  const reply = await service.reply(COMPACT, { input });
  expect(valueAt(reply, "object")).toBe("response.compaction");
  expect(valueAt(reply, "output")).toMatchObject([{ role: "user" }, { role: "user" }, { type: "compaction" }]);
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
});

test("D12 a compaction of another owner is refused, and so is a changed one; another model's is accepted", async () => {
  const key = await service.createKey("--name", "other", "--models", "*");
  const foreign = await compacted({ authorization: `Bearer ${key}` });
  const own = await compacted();
  const bytes = Buffer.from(own.encrypted_content, "base64");
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  const changed = { ...own, encrypted_content: bytes.toString("base64") };
  for (const item of [foreign, changed]) {
    const post = service.post(RESPONSES, { input: [user, item] });
    const message = await expectErrorA(await post, 400, "invalid_value", "input[1].encrypted_content");
    expect(message).toContain("Send the conversation itself instead.");
  }
  await service.reply(RESPONSES, { model: "svc-glm53", input: [user, own] });
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
});

test("without a model, and streamed, it is 400", async () => {
  await expectErrorA(await service.post(COMPACT, { model: undefined }), 400, "missing_required_parameter", "model");
  await expectErrorA(await service.post(COMPACT, { stream: true }), 400, "unsupported_value", "stream");
});

test("an answer without text is not a summary: 502", async () => {
  service.play(() => [textAnswer(" ")]);
  await expectErrorA(await service.post(COMPACT), 502, "upstream_error", null);
  expect(await service.stream(RESPONSES, asked)).toContain('"type":"response.failed"');
});

test("it is limited and charged as a generation", async () => {
  const key = await service.createKey("--name", "few", "--models", "svc-qwen", "--rpm", "1");
  const auth = { authorization: `Bearer ${key}` };
  expect((await service.post(COMPACT, {}, auth)).status).toBe(200);
  await expectErrorA(await service.post(RESPONSES, {}, auth), 429, "rate_limit_exceeded", null);
});

test("openai's client compacts and continues", async () => {
  const client = new OpenAI({ apiKey: service.gateway.key, baseURL: `${service.gateway.baseUrl}/v1`, maxRetries: 0 });
  const reply = await client.responses.compact({ model: "svc-qwen", input: "Read a.ts.", prompt_cache_key: "k" });
  expect(reply).toMatchObject({ object: "response.compaction", output: [{ role: "user" }, { type: "compaction" }] });
  const input = [...reply.output, { role: "user" as const, content: "Go on." }] as OpenAI.Responses.ResponseInput;
  await client.responses.create({ model: "svc-qwen", input });
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
  const trigger = { type: "compaction_trigger" as const };
  const final = await client.responses
    .stream({ model: "svc-qwen", input: [{ role: "user", content: "Read a.ts." }, trigger] })
    .finalResponse();
  expect(final.output).toMatchObject([{ type: "compaction" }]);
});

test("anthropic's client asks for a summary, and continues from its block", async () => {
  const { key, baseUrl } = service.gateway;
  const client = new Anthropic({ apiKey: key, baseURL: baseUrl, maxRetries: 0 });
  const said = [{ role: "user" as const, content: "Read a.ts." }];
  const body = { model: "svc-qwen", max_tokens: 64, messages: said, compaction: { type: "summarize" as const } };
  const expected = { content: [{ type: "compaction", content: SUMMARY }], stop_reason: "compaction" };
  expect(await client.beta.messages.create(body)).toMatchObject(expected);
  const streamed = await client.beta.messages.stream(body).finalMessage();
  expect(streamed).toMatchObject(expected);
  const messages = [{ role: "assistant" as const, content: streamed.content }, ...said];
  await client.beta.messages.create({ ...body, messages, compaction: null });
  expect(textsOf(service.lastRequest().messages)).toContain(SUMMARY);
});
