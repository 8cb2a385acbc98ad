import { expect, test } from "vitest";
import { toJsonText } from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { toChatMessages } from "../../../../../../engine/backends/openai-compatible/request/chat-messages.ts";
import { ANY_ORDER } from "../../../../../../engine/conversation/history/model-history.ts";
import { ImageDetail, type Message, Role } from "../../../../../../proto/gen/svc/inference/v1/messages.ts";
import { part, result, text } from "../../../../../support/engine/canonical.ts";

const call = (callId: string, name: string, argumentsJson: string) =>
  part({ $case: "toolCall", value: { callId, name, argumentsJson } });
const reasoned = (text: string, redacted = false) =>
  part({ $case: "reasoning", value: { text, signature: Buffer.alloc(0), redacted } });
const image = part({
  $case: "image",
  value: {
    source: { $case: "data", value: Buffer.from("png") },
    mimeType: "image/png",
    detail: ImageDetail.LOW,
    contentSha256: Buffer.alloc(0),
  },
});

const TURN: readonly Message[] = [
  { role: Role.SYSTEM, parts: [text("be"), text("brief")] },
  { role: Role.USER, parts: [text("go")], name: "ann" },
  { role: Role.ASSISTANT, parts: [reasoned("hm"), reasoned("x", true), call("c1", "run", '{ "b": 1.0,"a":2 }')] },
  { role: Role.TOOL, parts: [result("ok", "run", "c1")] },
  { role: Role.ASSISTANT, parts: [text("again"), call("c2", "run", "")] },
  { role: Role.USER, parts: [result("done", "run", "c2"), text("and?")] },
];

function messagesOf(messages: readonly Message[], callIds: "any" | "functions.name:index" | "nine-characters" = "any") {
  return JSON.parse(
    toJsonText(toChatMessages(messages, { turns: ANY_ORDER, callIds, images: false, marks: SpelledMarks.none })),
  );
}

test("a history keeps its order, its reasoning and the exact text of arguments", () => {
  expect(messagesOf(TURN)).toEqual([
    { role: "system", content: "be\nbrief" },
    { role: "user", name: "ann", content: "go" },
    {
      role: "assistant",
      content: null,
      reasoning_content: "hm",
      tool_calls: [{ id: "c1", type: "function", function: { name: "run", arguments: '{ "b": 1.0,"a":2 }' } }],
    },
    { role: "tool", tool_call_id: "c1", name: "run", content: "ok" },
    {
      role: "assistant",
      content: "again",
      tool_calls: [{ id: "c2", type: "function", function: { name: "run", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c2", name: "run", content: "done" },
    { role: "user", content: "and?" },
  ]);
});

test("call ids are converted to the template's form, equally in a call and its result", () => {
  const ids = (rule: "functions.name:index" | "nine-characters") =>
    messagesOf(TURN, rule).flatMap((message: { tool_call_id?: string; tool_calls?: { id: string }[] }) => [
      ...(message.tool_calls ?? []).map(({ id }) => id),
      ...(message.tool_call_id === undefined ? [] : [message.tool_call_id]),
    ]);
  expect(ids("functions.name:index")).toEqual([
    "functions.run:0",
    "functions.run:0",
    "functions.run:1",
    "functions.run:1",
  ]);
  const [first, second, third] = ids("nine-characters");
  expect(first).toMatch(/^[A-Za-z0-9]{9}$/);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
});

test("ids of the right form are unchanged", () => {
  const parts = [call("functions.run:0", "run", "{}"), call("functions.find:1", "find", "{}")];
  const [message] = messagesOf([{ role: Role.ASSISTANT, parts }], "functions.name:index");
  expect(message.tool_calls.map(({ id }: { id: string }) => id)).toEqual(["functions.run:0", "functions.find:1"]);
});

test("images are sent if the model accepts them, and otherwise refused with their path", () => {
  const messages = [{ role: Role.USER, parts: [text("what?"), image] }];
  const written = toJsonText(
    toChatMessages(messages, { turns: ANY_ORDER, callIds: "any", images: true, marks: SpelledMarks.none }),
  );
  expect(JSON.parse(written)).toMatchObject([
    {
      content: [
        { type: "text", text: "what?" },
        { type: "image_url", image_url: { url: "data:image/png;base64,cG5n", detail: "low" } },
      ],
    },
  ]);
  expect(() => messagesOf(messages)).toThrow("messages[0].parts[1]: this model does not take such images.");
});
