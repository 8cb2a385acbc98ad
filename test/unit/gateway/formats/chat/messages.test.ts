import { describe, expect, test } from "vitest";
import { MAX_MESSAGES } from "../../../../../gateway/formats/chat/schema.ts";
import { ImageDetail, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { faultOf } from "../thrown-by.ts";
import { prepareChat } from "./prepare-chat.ts";

const text = (value: string) => ({ kind: { $case: "text", value: { text: value } } });
const user = { role: "user", content: "hi" };
const call = (id: string, name = "read", args = "{}") => ({
  id,
  type: "function",
  function: { name, arguments: args },
});
const toolCall = (callId: string, name = "read", argumentsJson = "{}") => ({
  kind: { $case: "toolCall", value: { callId, name, argumentsJson } },
});
const answer = (id: string) => ({ role: "tool", tool_call_id: id, content: "done" });
const png = `data:image/png;base64,${Buffer.from("\x89PNG\r\n\x1a\n..", "latin1").toString("base64")}`;

const canonical = (messages: unknown[], model = "svc-qwen") => prepareChat({ messages, model }).request.messages;

describe("messages that are accepted", () => {
  test("system messages stay separate and in place", () => {
    const messages = ["system", "developer", "user", "system"].map((role, i) => ({ role, content: `${i}` }));
    expect(canonical(messages)).toEqual([
      { role: Role.SYSTEM, parts: [text("0")] },
      { role: Role.SYSTEM, parts: [text("1")] },
      { role: Role.USER, parts: [text("2")] },
      { role: Role.SYSTEM, parts: [text("3")] },
    ]);
  });

  test.each([
    [{ role: "user", content: null }],
    [{ role: "user" }],
    [{ role: "user", content: "" }],
    [{ role: "user", content: [] }],
    [{ role: "user", content: [{ type: "text", text: "" }] }],
  ])("%j is empty, always in the same form", (message) => {
    expect(canonical([message])).toEqual([{ role: Role.USER, parts: [text("")] }]);
  });

  test("an assistant with neither text nor calls is empty text", () => {
    expect(canonical([{ role: "assistant", content: null, tool_calls: [], refusal: null }])).toEqual([
      { role: Role.ASSISTANT, parts: [text("")] },
    ]);
  });

  test("text parts keep their boundaries; unknown keys and null fields are ignored", () => {
    const content = [
      { type: "text", text: "a", foo: 1 },
      { type: "text", text: "b", cache_control: null },
    ];
    expect(canonical([{ ...user, content, name: null, extra: {} }])).toEqual([
      { role: Role.USER, parts: [text("a"), text("b")] },
    ]);
  });

  test("a name stays with the message", () => {
    expect(canonical([{ ...user, name: "ada" }])[0]?.name).toBe("ada");
    expect(canonical([{ ...user, name: "" }])[0]?.name).toBeUndefined();
  });

  test.each([[null], [undefined], [""]])("an assistant with content %j and calls has its calls only", (content) => {
    const messages = [user, { role: "assistant", content, tool_calls: [call("c1", "read", '{ "a":1}')] }, answer("c1")];
    expect(canonical(messages).slice(1)).toEqual([
      { role: Role.ASSISTANT, parts: [toolCall("c1", "read", '{ "a":1}')] },
      {
        role: Role.TOOL,
        parts: [
          {
            kind: {
              $case: "toolResult",
              value: { callId: "c1", name: "read", content: [text("done")], isError: false },
            },
          },
        ],
      },
    ]);
  });

  test.each([
    ["not json", "not json"],
    ["", "{}"],
    ["[1]", "[1]"],
  ])("the arguments %j of an earlier call become %j", (args, expected) => {
    const messages = [{ role: "assistant", tool_calls: [call("c1", "made up by the model", args)] }, answer("c1")];
    expect(canonical(messages)[0]?.parts).toEqual([toolCall("c1", "made up by the model", expected)]);
  });

  test.each([["reasoning_content"], ["reasoning"]])("%s comes before text and calls", (key) => {
    const assistant = { role: "assistant", content: "text", [key]: "thought", tool_calls: [call("c1")] };
    expect(canonical([assistant, answer("c1")])[0]?.parts).toEqual([
      { kind: { $case: "reasoning", value: { text: "thought", signature: Buffer.alloc(0), redacted: false } } },
      text("text"),
      toolCall("c1"),
    ]);
  });

  test("reasoning under both names is read once", () => {
    const assistant = { role: "assistant", content: "x", reasoning_content: "a", reasoning: "a" };
    expect(canonical([assistant])[0]?.parts).toHaveLength(2);
  });

  test("a refusal is the assistant's text", () => {
    expect(canonical([{ role: "assistant", content: null, refusal: "no" }])[0]?.parts).toEqual([text("no")]);
    const content = [{ type: "refusal", refusal: "no" }];
    expect(canonical([{ role: "assistant", content }])[0]?.parts).toEqual([text("no")]);
  });

  test("calls are answered in any order, ids may repeat in a later turn", () => {
    const turn = [{ role: "assistant", tool_calls: [call("0", "a"), call("1", "b")] }, answer("1"), answer("0")];
    const names = canonical([...turn, user, ...turn]).flatMap(({ parts }) =>
      parts.flatMap(({ kind }) => (kind?.$case === "toolResult" ? [kind.value.name] : [])),
    );
    expect(names).toEqual(["b", "a", "b", "a"]);
  });

  test("a second result of the same call stays", () => {
    expect(canonical([{ role: "assistant", tool_calls: [call("0")] }, answer("0"), answer("0")])).toHaveLength(3);
  });

  test("cache_control marks the end of a prefix, on a part or after a message", () => {
    const mark = { cache_control: { type: "ephemeral", ttl: "5m" } };
    const cacheBreakpoint = { ttl: { seconds: 300, nanos: 0 } };
    const content = [
      { type: "text", text: "a", ...mark },
      { type: "text", text: "b" },
    ];
    expect(canonical([{ role: "user", content }])[0]?.parts).toEqual([{ ...text("a"), cacheBreakpoint }, text("b")]);
    expect(canonical([{ role: "system", content: "s", ...mark }])[0]?.parts).toEqual([
      { ...text("s"), cacheBreakpoint },
    ]);
    const results = canonical([
      { role: "assistant", tool_calls: [call("0")] },
      { ...answer("0"), ...mark },
    ]);
    expect(results[1]?.parts[0]?.cacheBreakpoint).toEqual(cacheBreakpoint);
    const empty = [{ type: "text", text: "", ...mark }];
    expect(canonical([{ role: "user", content: [...content, ...empty] }])[0]?.parts).toHaveLength(3);
  });

  test("images from users and tools reach a model with image input", () => {
    const content = [{ type: "image_url", image_url: { url: png, detail: "high" } }];
    const messages = [
      { role: "user", content },
      { role: "assistant", tool_calls: [call("0")] },
      { ...answer("0"), content },
    ];
    const image = { $case: "image", value: { mimeType: "image/png", detail: ImageDetail.HIGH } };
    const [first, , last] = canonical(messages, "svc-kimik3");
    expect(first?.parts[0]?.kind).toMatchObject(image);
    expect(last?.parts[0]?.kind).toMatchObject({ value: { content: [{ kind: image }] } });
  });
});

describe("messages that are refused", () => {
  const assistant = (more: object) => [{ role: "assistant", ...more }];
  const withCall = (value: unknown) => assistant({ tool_calls: [value] });
  const part = (value: unknown) => [{ role: "user", content: [{ type: "text", text: "a" }, value] }];
  const calls = { role: "assistant", tool_calls: [call("a"), call("b")] };
  const image = { type: "image_url", image_url: { url: png } };

  test.each<[unknown[], string, string]>([
    [[{ content: "x" }], "missing_required_parameter", "messages[0].role"],
    [[{ role: "constructor" }], "invalid_value", "messages[0].role"],
    [[{ ...user, content: { type: "text" } }], "invalid_type", "messages[0].content"],
    [part({ text: "x" }), "missing_required_parameter", "messages[0].content[1].type"],
    [part({ type: "text" }), "missing_required_parameter", "messages[0].content[1].text"],
    [part({ type: "refusal", refusal: "x" }), "invalid_value", "messages[0].content[1].type"],
    [part({ type: "input_audio" }), "unsupported_value", "messages[0].content[1].type"],
    [[{ role: "system", content: [image] }], "invalid_value", "messages[0].content[0].type"],
    [assistant({ content: [image] }), "invalid_value", "messages[0].content[0].type"],
    [assistant({ content: "x", function_call: { name: "f" } }), "unsupported_parameter", "messages[0].function_call"],
    [withCall({ ...call("a"), id: undefined }), "missing_required_parameter", "messages[0].tool_calls[0].id"],
    [withCall(call("")), "invalid_value", "messages[0].tool_calls[0].id"],
    [withCall(call("\ud800")), "invalid_value", "messages[0].tool_calls[0].id"],
    [withCall({ ...call("a"), type: undefined }), "missing_required_parameter", "messages[0].tool_calls[0].type"],
    [withCall({ ...call("a"), type: "custom" }), "unsupported_value", "messages[0].tool_calls[0].type"],
    [withCall({ id: "a", type: "function" }), "missing_required_parameter", "messages[0].tool_calls[0].function"],
    [
      withCall({ ...call("a"), function: { name: "f" } }),
      "missing_required_parameter",
      "messages[0].tool_calls[0].function.arguments",
    ],
    [assistant({ tool_calls: [call("a"), call("a")] }), "invalid_value", "messages[0].tool_calls[1].id"],
    [[{ role: "tool", content: "x" }], "missing_required_parameter", "messages[0].tool_call_id"],
    [[user, answer("a")], "invalid_value", "messages[1].tool_call_id"],
    [[calls, answer("a"), user], "invalid_value", "messages[2].role"],
    [[user, calls, answer("a")], "invalid_value", "messages[1].tool_calls"],
    [[calls, answer("a"), answer("b"), user, answer("a")], "invalid_value", "messages[4].tool_call_id"],
  ])("%j", (messages, code, param) => {
    expect(faultOf(() => canonical(messages))).toEqual({ code, param });
  });

  test.each([
    [{ type: "image_url" }, "missing_required_parameter", "messages[0].content[1].image_url"],
    [
      { type: "image_url", image_url: { url: png, detail: "max" } },
      "invalid_value",
      "messages[0].content[1].image_url.detail",
    ],
    [
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      "unsupported_value",
      "messages[0].content[1].image_url.url",
    ],
  ])("the image part %j", (value, code, param) => {
    expect(faultOf(() => canonical(part(value), "svc-kimik3"))).toEqual({ code, param });
  });

  test("an excessive number of messages", () => {
    const run = () => canonical(new Array(MAX_MESSAGES + 1).fill(user));
    expect(faultOf(run)).toEqual({ code: "array_above_max_length", param: "messages" });
  });
});
