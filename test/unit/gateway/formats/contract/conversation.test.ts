import { expect, test } from "vitest";
import { checkedMessages } from "../../../../../gateway/formats/contract/conversation.ts";
import { ImageDetail, type Message, type Part, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { textMessage } from "../../../../support/requests/generate-request.ts";
import { faultOf } from "../thrown-by.ts";

const partOf = (kind: Part["kind"]): Part => ({ kind, cacheBreakpoint: undefined });
const message = (role: Role, ...kinds: Part["kind"][]): Message => ({
  role,
  parts: kinds.map(partOf),
  name: undefined,
});
const call = (callId: string, name = "look"): Part["kind"] => ({
  $case: "toolCall",
  value: { callId, name, argumentsJson: "{}" },
});
const reasoning = (text: string, redacted = false): Part["kind"] => ({
  $case: "reasoning",
  value: { text, signature: Buffer.from("seal"), redacted },
});
const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex");
const image = (value: object): Part["kind"] =>
  ({
    $case: "image",
    value: { source: { $case: "data", value: PNG }, mimeType: "image/png", detail: ImageDetail.UNSPECIFIED, ...value },
  }) as Part["kind"];

test.each<[string, readonly Message[], string]>([
  ["no message", [], "messages"],
  ["a role that there is not", [textMessage(9 as Role, "x")], "messages[0].role"],
  ["a call by the user", [message(Role.USER, call("1"))], "messages[0].parts[0].tool_call"],
  ["an image of the system", [message(Role.SYSTEM, image({}))], "messages[0].parts[0].image"],
  ["a call without an id", [message(Role.ASSISTANT, call(""))], "messages[0].parts[0].tool_call.call_id"],
  [
    "a call of a name with a line break",
    [message(Role.ASSISTANT, call("1", "a\nb"))],
    "messages[0].parts[0].tool_call.name",
  ],
  ["two calls of one id", [message(Role.ASSISTANT, call("1"), call("1"))], "messages[0].parts[1].tool_call.call_id"],
  ["an image without bytes", [message(Role.USER, image({ source: undefined }))], "messages[0].parts[0].image.data"],
  [
    "an image by its address",
    [message(Role.USER, image({ source: { $case: "uri", value: "http://10.0.0.1/" } }))],
    "messages[0].parts[0].image.uri",
  ],
  [
    "an image in a detail that there is not",
    [message(Role.USER, image({ detail: 9 }))],
    "messages[0].parts[0].image.detail",
  ],
])("%s is refused where it stands", (_, messages, param) => {
  expect(faultOf(() => checkedMessages(messages, true)).param).toBe(param);
});

test("an image for a model without image input is refused", () => {
  expect(faultOf(() => checkedMessages([message(Role.USER, image({}))], false)).param).toBe(
    "messages[0].parts[0].image",
  );
});

test("fields reserved to gateways are dropped, and so are empty parts", () => {
  const [checked] = checkedMessages(
    [message(Role.ASSISTANT, undefined, reasoning(""), reasoning("hidden", true), reasoning("thought"))],
    false,
  );
  expect(checked?.parts).toEqual([
    partOf({ $case: "reasoning", value: { text: "thought", signature: Buffer.alloc(0), redacted: false } }),
  ]);
});

test("arguments are passed on byte for byte, even invalid JSON; absent ones are an empty object", () => {
  const given = (argumentsJson: string): Part["kind"] => ({
    $case: "toolCall",
    value: { callId: "1", name: "look", argumentsJson },
  });
  const textOf = (text: string) => {
    const kind = checkedMessages([message(Role.ASSISTANT, given(text))], false)[0]?.parts[0]?.kind;
    return kind?.$case === "toolCall" && kind.value.argumentsJson;
  };
  expect(["{oops", '{ "a": 1 }', ""].map(textOf)).toEqual(["{oops", '{ "a": 1 }', "{}"]);
});
