import { describe, expect, test } from "vitest";
import type { CountTokensRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { finished, started } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { latch } from "../../support/latch.ts";

const COUNT = "/v1/messages/count_tokens";
const MESSAGES = "/v1/messages";
const INPUT_TOKENS = "/v1/responses/input_tokens";

type Prompt = Pick<CountTokensRequest, "messages" | "tools" | "toolChoice" | "reasoning">;

/** Counts every part of a request's prompt, so that any difference shows. */
function countOf({ messages, tools, toolChoice, reasoning }: Prompt): number {
  return JSON.stringify([messages, tools, toolChoice, reasoning]).length;
}

const service = serviceOfFile({ engine: { slots: 1, countTokens: countOf } }, (request) => [
  [started({ inputTokens: countOf(request) }), finished(undefined, { inputTokens: countOf(request) })],
]);

const tools = [{ name: "read", description: "Reads.", input_schema: { type: "object", properties: {} } }];

test("case 105: the reply holds the number of tokens", async () => {
  const reply = await service.reply(COUNT);
  expect(Object.keys(reply as object)).toEqual(["input_tokens"]);
  expect(Number.isInteger(valueAt(reply, "input_tokens"))).toBe(true);
  expect(valueAt(reply, "input_tokens")).toBeGreaterThanOrEqual(1);
});

test("case 106: the count is the prompt of the message with the same body", async () => {
  const fields = {
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    tools,
    tool_choice: { type: "any" },
    thinking: { type: "adaptive" },
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "read", input: { path: "a.ts" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "x" }] },
    ],
  };
  const counted = valueAt(await service.reply(COUNT, fields), "input_tokens");
  const usage = valueAt(await service.reply(MESSAGES, fields), "usage");
  expect(valueAt(usage, "input_tokens")).toBe(counted);
});

test("case 107: tools are counted", async () => {
  const without = Number(valueAt(await service.reply(COUNT), "input_tokens"));
  expect(valueAt(await service.reply(COUNT, { tools }), "input_tokens")).toBeGreaterThan(without);
});

test("case 108a: bodies that messages refuses are refused", async () => {
  const system = { messages: [{ role: "system", content: "x" }] };
  await expectErrorB(await service.post(COUNT, system), 400, "invalid_request_error");
  await expectErrorB(await service.post(COUNT, { model: "gpt-4o" }), 400, "invalid_request_error");
});

test("case 108b: counting works while all slots are busy", async () => {
  const go = latch();
  const begun = latch();
  service.play(async function* () {
    yield [started()];
    begun.open();
    await go.passed;
    yield [finished()];
  });
  const busy = service.post(MESSAGES);
  await begun.passed;
  expect(service.engine.backend.load()).toMatchObject({ slots: 1, busySlots: 1 });
  expect(await service.reply(COUNT)).toEqual({ input_tokens: expect.any(Number) });
  go.open();
  expect((await busy).status).toBe(200);
});

describe("counts of responses", () => {
  const tools = [{ type: "function", name: "read", parameters: { type: "object", properties: {} } }];
  const call = { type: "function_call", call_id: "call_1", name: "read", arguments: "{}" };

  test("the reply holds its kind and the number", async () => {
    expect(await service.reply(INPUT_TOKENS)).toEqual({
      object: "response.input_tokens",
      input_tokens: expect.any(Number),
    });
  });

  test("the count is the prompt of the response with the same body", async () => {
    const fields = {
      instructions: "Be brief.",
      ...{ tools, tool_choice: "required", parallel_tool_calls: false, reasoning: { effort: "high" } },
      input: [call, { type: "function_call_output", call_id: "call_1", output: "x" }],
    };
    const counted = valueAt(await service.reply(INPUT_TOKENS, fields), "input_tokens");
    const usage = valueAt(await service.reply("/v1/responses", fields), "usage");
    expect(valueAt(usage, "input_tokens")).toBe(counted);
  });

  test("bodies that responses refuses are refused in its envelope, with their path", async () => {
    await expectErrorA(await service.post(INPUT_TOKENS, { foo: 1 }), 400, "unknown_parameter", "foo");
  });
});
