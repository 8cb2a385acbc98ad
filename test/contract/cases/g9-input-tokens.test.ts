import { expect, test } from "vitest";
import type { CountTokensRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { finished, started } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";

const COUNT = "/v1/responses/input_tokens";
const RESPONSES = "/v1/responses";

type Prompt = Pick<CountTokensRequest, "messages" | "tools" | "toolChoice" | "reasoning">;

/** Counts every part of a request's prompt, so that any difference shows. */
function countOf({ messages, tools, toolChoice, reasoning }: Prompt): number {
  return JSON.stringify([messages, tools, toolChoice, reasoning]).length;
}

const service = serviceOfFile({ engine: { countTokens: countOf } }, (request) => [
  [started({ inputTokens: countOf(request) }), finished(undefined, { inputTokens: countOf(request) })],
]);

const tools = [{ type: "function", name: "read", parameters: { type: "object", properties: {} } }];
const call = { type: "function_call", call_id: "call_1", name: "read", arguments: "{}" };

test("the reply holds its kind and the number", async () => {
  expect(await service.reply(COUNT)).toEqual({ object: "response.input_tokens", input_tokens: expect.any(Number) });
});

test.each([
  ["a text", {}],
  ["instructions", { instructions: "Be brief." }],
  ["tools and a choice", { tools, tool_choice: "required", parallel_tool_calls: false }],
  ["reasoning", { reasoning: { effort: "high" } }],
  ["a tool's result", { tools, input: [call, { type: "function_call_output", call_id: "call_1", output: "x" }] }],
])("the count is the prompt of the response with the same body: %s", async (_, fields) => {
  const counted = valueAt(await service.reply(COUNT, fields), "input_tokens");
  const usage = valueAt(await service.reply(RESPONSES, fields), "usage");
  expect(valueAt(usage, "input_tokens")).toBe(counted);
});

test("bodies that responses refuses are refused in its envelope, with their path", async () => {
  await expectErrorA(await service.post(COUNT, { input: null }), 400, "missing_required_parameter", "input");
  await expectErrorA(await service.post(COUNT, { foo: 1 }), 400, "unknown_parameter", "foo");
  await expectErrorA(await service.post(COUNT, { model: "gpt-4o" }), 400, "model_not_found", "model");
  await expectErrorA(
    await service.post(COUNT, { previous_response_id: "r" }),
    400,
    "unsupported_parameter",
    "previous_response_id",
  );
});
