import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import type { CanonicalRequest, Format } from "../../../../gateway/formats/format.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import type { UnreadableRule } from "../../../../gateway/formats/parts.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { CONTEXT } from "../../../support/events/encoding-context.ts";
import { faultOf } from "./thrown-by.ts";

const PNG = Buffer.from("\x89PNG\r\n\x1a\n0000", "latin1").toString("base64");

type Place = "earlier" | "result" | "last";

type Dialect = {
  readonly format: Format;
  /** Parts in this format that a model without images cannot read, by their kind. */
  readonly parts: Readonly<Record<string, object>>;
  readonly text: object;
  /** The name of the conversation in a body. */
  readonly field: "messages" | "input";
  /** A call and its result with this content. */
  readonly result: (content: readonly object[]) => readonly object[];
};

const CHAT: Dialect = {
  format: chat,
  parts: {
    "an image": { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    "a file": { type: "file", file: { file_data: "x" } },
    "a recording": { type: "input_audio", input_audio: { data: "x", format: "wav" } },
  },
  text: { type: "text", text: "Look." },
  field: "messages",
  result: (content) => [
    { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c", content },
  ],
};

const DIALECTS: Readonly<Record<string, Dialect>> = {
  chat: CHAT,
  messages: {
    format: messages,
    parts: {
      "an image": { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      "a document": { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERg==" } },
    },
    text: { type: "text", text: "Look." },
    field: "messages",
    result: (content) => [
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content }, ...content.slice(1)] },
    ],
  },
  responses: {
    format: responses,
    parts: {
      "an image": { type: "input_image", image_url: `data:image/png;base64,${PNG}` },
      "a file": { type: "input_file", file_data: "x" },
    },
    text: { type: "input_text", text: "Look." },
    field: "input",
    result: (content) => [
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: content },
    ],
  },
};

/** A conversation with the part before the last message of the user, in the result of a tool, or in the last message. */
function bodyOf({ text, field, result }: Dialect, place: Place, part: object): object {
  const content = [text, part];
  const said = { role: "user", content };
  const turns = { earlier: [said, { role: "user", content: "And?" }], result: result(content), last: [said] }[place];
  return { model: "svc-qwen", [field]: turns, ...(field === "messages" && { max_tokens: 9 }) };
}

const CASES = Object.entries(DIALECTS).flatMap(([name, dialect]) =>
  Object.entries(dialect.parts).map(([what, part]) => ({ name, dialect, what, part })),
);

/** The texts of the messages of a role, including those in results. */
function textsOf({ messages: all }: CanonicalRequest, role: Role): readonly string[] {
  const parts = all.filter((message) => message.role === role).flatMap((message) => message.parts);
  const inner = parts.flatMap((one) => (one.kind?.$case === "toolResult" ? one.kind.value.content : [one]));
  return inner.flatMap(({ kind }) => (kind?.$case === "text" ? [kind.value.text] : []));
}

describe.each(CASES)("$what that a model cannot read, in $name", ({ dialect, what, part }) => {
  const { format, field } = dialect;
  const read = (place: Place, unreadableContent: UnreadableRule = "reject") =>
    format.prepare(bodyOf(dialect, place, part), {
      ...CONTEXT,
      acceptsImages: () => false,
      settings: { ...CONTEXT.settings, unreadableContent },
    }).request;
  const instead = `[Here was ${what}, which this model cannot read.]`;

  test("becomes a text for the model in a tool's result, and beside one", () => {
    expect(textsOf(read("result"), Role.TOOL)).toEqual(["Look.", instead]);
    if (format === messages) expect(textsOf(read("result"), Role.USER)).toEqual([instead]);
  });

  test("becomes one in an earlier message, so that the conversation continues", () => {
    expect(textsOf(read("earlier"), Role.USER).slice(0, 2)).toEqual(["Look.", instead]);
  });

  test("is refused in the last one by its path, if it is the user's own", () => {
    const { code, param } = faultOf(() => read("last"));
    expect(code).toBe("unsupported_value");
    expect(param).toMatch(`${field}[0].content[1]`);
  });

  test("becomes a text there too, if so configured", () => {
    expect(textsOf(read("last", "placeholder"), Role.USER)).toEqual(["Look.", instead]);
  });
});

describe("an undecodable image is treated the same, for a model with image input too", () => {
  const readChat = (place: Place, part: object) =>
    chat.prepare(bodyOf(CHAT, place, part), { ...CONTEXT, acceptsImages: () => true });

  test.each([
    ["one that is elsewhere", "https://host.example/a.png"],
    ["one of another type", `data:image/svg+xml;base64,${Buffer.from("<svg/>").toString("base64")}`],
    ["one that is none", "data:image/png;base64,bm90IGFuIGltYWdl"],
  ])("%s", (_what, url) => {
    const part = { type: "image_url", image_url: { url } };
    const read = (place: Place) => readChat(place, part);
    for (const place of ["earlier", "result"] as const)
      expect(JSON.stringify(read(place).request)).toContain("Here was an image");
    expect(() => read("last")).toThrow();
  });

  test("content without the form of an image is refused everywhere", () => {
    expect(faultOf(() => readChat("result", { type: "image_url" })).code).toBe("missing_required_parameter");
  });
});
