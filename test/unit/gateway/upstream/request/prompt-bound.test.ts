import { expect, test } from "vitest";
import { beyondBounds, promptBounds, userTextBytes } from "../../../../../gateway/upstream/request/prompt-bound.ts";
import type { GenerateRequest } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { ModelDescription } from "../../../../../proto/gen/svc/inference/v1/node_service.ts";
import { generateRequest, textMessage } from "../../../../support/requests/generate-request.ts";

const node = (contextWindow: number, longestTokenBytes: number) =>
  ModelDescription.fromPartial({ contextWindow, longestTokenBytes });
const bytesOf = (request: GenerateRequest) => userTextBytes(request.messages);

test("a prompt larger than a window of the longest tokens fits no endpoint", () => {
  expect(beyondBounds(1_000, [node(100, 10)])).toEqual({ tokens: 100, window: 100 });
  expect(beyondBounds(999, [node(100, 10)])).toBeUndefined();
});

test("one endpoint that may accept it, or whose bound is unknown, is enough to try it", () => {
  expect(beyondBounds(5_000, [node(100, 10), node(200, 20)])).toEqual({ tokens: 250, window: 200 });
  for (const other of [node(1_000, 10), node(0, 10), node(100, 0), undefined])
    expect(beyondBounds(5_000, promptBounds([node(100, 10), other]))).toBeUndefined();
  expect(beyondBounds(5_000, [])).toBeUndefined();
});

test("endpoints of one kind have one bound", () => {
  const bounds = promptBounds([node(100, 10), node(200, 10), node(100, 10)]);
  expect(bounds).toEqual([
    { contextWindow: 100, longestTokenBytes: 10 },
    { contextWindow: 200, longestTokenBytes: 10 },
  ]);
});

test("only the users' text counts, without white space that a template may trim", () => {
  const long = "x".repeat(1_000);
  for (const role of [Role.SYSTEM, Role.ASSISTANT, Role.TOOL])
    expect(bytesOf(generateRequest({ messages: [textMessage(role, long)] }))).toBe(0);
  expect(bytesOf(generateRequest({}, `${" ".repeat(5_000)}x`))).toBe(1);
  const both = [textMessage(Role.USER, "x".repeat(500)), textMessage(Role.USER, "x".repeat(500))];
  expect(bytesOf(generateRequest({ messages: both }))).toBe(1_000);
});
