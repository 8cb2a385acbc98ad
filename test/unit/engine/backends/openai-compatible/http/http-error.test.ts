import { expect, test } from "vitest";
import { faultOfReply, toEngineFault } from "../../../../../../engine/backends/openai-compatible/http/http-error.ts";

const said = (message: string, fields: object = {}) => JSON.stringify({ error: { message, ...fields } });

test.each([
  [400, said("bad"), "INVALID_REQUEST"],
  [422, JSON.stringify({ detail: [{ loc: ["body", "top_k"], msg: "must be" }] }), "INVALID_REQUEST"],
  [400, said("Grammar error: unsupported keyword"), "INVALID_SCHEMA"],
  [400, said("Invalid JSON schema"), "INVALID_SCHEMA"],
  [401, said("Unauthorized"), "ENGINE_ERROR"],
  [404, said("The model `x` does not exist."), "MODEL_NOT_SERVED"],
  [413, "", "INVALID_REQUEST"],
  [429, "", "QUEUE_FULL"],
  [500, "<html>", "ENGINE_ERROR"],
  [501, said("not supported", { type: "not_supported_error" }), "UNSUPPORTED_FEATURE"],
  [502, "", "ENGINE_DOWN"],
  [503, said("The request queue is full."), "QUEUE_FULL"],
  [503, said("Loading model", { type: "unavailable_error" }), "MODEL_LOADING"],
  [503, "", "ENGINE_DOWN"],
  [418, "", "INVALID_REQUEST"],
])("status %i with %s is %s", (status, body, reason) => {
  expect(toEngineFault(faultOfReply(status, body)).reason).toBe(reason);
});

test.each([
  [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion).",
    "4500",
  ],
  [
    "You passed 4500 input tokens and requested 1 output tokens. However, the model's context length is only 4096 tokens",
    "4500",
  ],
  ["The input (4500 tokens) is longer than the model's context length (4096 tokens).", "4500"],
  [
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4500 tokens from the input messages and 500 tokens for the completion.",
    "4500",
  ],
  ["request (4500 tokens) exceeds the available context size (4096 tokens), try increasing it", "4500"],
])("the numbers of a prompt that is too long are read: %s", (message, tokens) => {
  const { reason, facts } = toEngineFault(faultOfReply(400, said(message)));
  expect(reason).toBe("CONTEXT_WINDOW_EXCEEDED");
  expect(facts).toEqual({ input_tokens: tokens, context_window: "4096" });
});

test("numeric fields take precedence over numbers in a text", () => {
  const fields = { type: "exceed_context_size_error", n_prompt_tokens: 7, n_ctx: 5 };
  expect(toEngineFault(faultOfReply(400, said("too long", fields))).facts).toEqual({
    input_tokens: "7",
    context_window: "5",
  });
});
