import { expect, test } from "vitest";
import { limitOutput } from "../../../../../engine/backends/request-plan.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";

const limitOf = (maxOutputTokens: number | undefined, inputTokens: number) =>
  limitOutput(generateRequest({ maxOutputTokens }), inputTokens, 100);

test("an answer ends at the request's limit or at the window, whichever is lower", () => {
  expect(limitOf(10, 40)).toEqual({ maxOutputTokens: 10, limitReason: FinishReason.MAX_OUTPUT_TOKENS });
  expect(limitOf(60, 40)).toEqual({ maxOutputTokens: 60, limitReason: FinishReason.MAX_OUTPUT_TOKENS });
  expect(limitOf(61, 40)).toEqual({ maxOutputTokens: 60, limitReason: FinishReason.CONTEXT_WINDOW });
  expect(limitOf(undefined, 99)).toEqual({ maxOutputTokens: 1, limitReason: FinishReason.CONTEXT_WINDOW });
});

test("a prompt that fills the window is refused with both numbers", () => {
  const facts = { input_tokens: "100", context_window: "100" };
  expect(() => limitOf(1, 100)).toThrow(expect.objectContaining({ reason: "CONTEXT_WINDOW_EXCEEDED", facts }));
});

test("an answer of no tokens is refused", () => {
  expect(() => limitOf(0, 10)).toThrow(expect.objectContaining({ reason: "INVALID_REQUEST" }));
});
