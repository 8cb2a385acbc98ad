import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import type { Format } from "../../../../gateway/formats/format.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { outline } from "../../../support/requests/outline.ts";
import { PNG, refusal, requestOf } from "./fixture.ts";

const IMAGES = {
  "image/png": Buffer.from(PNG, "base64"),
  "image/jpeg": Buffer.from([0xff, 0xd8, 0xff, 0xe0, 9]),
  "image/gif": Buffer.from("GIF89a..."),
  "image/webp": Buffer.from("RIFF\x01\x02\x03\x04WEBPVP8 "),
};
const base64 = (type: keyof typeof IMAGES) => IMAGES[type].toString("base64");
const imageAt = (url: string) => ({ type: "image_url", image_url: { url } });
const shows = (url: string) => ({ messages: [{ role: "user", content: [imageAt(url)] }] });

test.each(Object.entries(IMAGES))("a data URL of %s is taken with its digest", (mimeType, data) => {
  const request = requestOf(chat, shows(`data:${mimeType};base64,${data.toString("base64")}`));
  const contentSha256 = createHash("sha256").update(data).digest();
  expect(request.messages[0]?.parts[0]?.kind?.value).toEqual({
    ...{ source: { $case: "data", value: data }, mimeType, detail: 0, contentSha256 },
  });
});

test.each([
  [`DATA:image/PNG;base64,${PNG}`, "image/png"],
  [`data:image/png;charset=utf-8;base64,${PNG}`, "image/png"],
  [`data:image/jpg;base64,${base64("image/jpeg")}`, "image/jpeg"],
  // The type comes from the data, whatever the client declared.
  [`data:image/gif;base64,${PNG}`, "image/png"],
  [`data:image/bmp;base64,${base64("image/webp")}`, "image/webp"],
])("%s is as good", (url, mimeType) => {
  expect(outline(requestOf(chat, shows(url)))).toBe(`user ${mimeType} 0`);
});

test.each([
  ["auto", 0],
  ["low", 1],
  ["high", 2],
  ["original", 2],
  [null, 0],
])("the detail %s is %i in chat and responses", (detail, expected) => {
  const image_url = `data:image/png;base64,${PNG}`;
  const inChat = [{ type: "image_url", image_url: { url: image_url, detail } }];
  const inResponses = [{ type: "input_image", image_url, detail }];
  const shown = `user image/png ${expected}`;
  expect(outline(requestOf(chat, { messages: [{ role: "user", content: inChat }] }))).toBe(shown);
  expect(outline(requestOf(responses, { input: [{ role: "user", content: inResponses }] }))).toBe(shown);
});

test.each([
  ["https://example.com/a.png", "unsupported_value"],
  ["", "unsupported_value"],
  [`data:image/png;hex,${PNG}`, "invalid_value"],
  ["data:image/png;base64,", "invalid_value"],
  [`data:image/png;base64,${PNG.slice(0, 8)} ${PNG.slice(8)}`, "invalid_value"],
  [`data:image/gif;base64,${Buffer.from("BM not one").toString("base64")}`, "invalid_value"],
  [`data:image/svg+xml;base64,${Buffer.from("<svg/>").toString("base64")}`, "unsupported_value"],
])("%s is refused", (url, code) => {
  expect(refusal(chat, shows(url))).toBe(`${code} messages[0].content[0].image_url.url`);
});

test("an unknown type of data of an unknown type is refused at its field", () => {
  const source = { type: "base64", media_type: "image/bmp", data: "Qk0=" };
  const list = [{ role: "user", content: [{ type: "image", source }] }];
  expect(refusal(messages, { messages: list })).toMatch(/^messages\.0\.content\.0\.source\.media_type: /);
});

type Place = "earlier" | "result" | "last";

/** A part that a model without images cannot read. */
type Case = { readonly format: Format; readonly what: string; readonly part: object };

const PDF = { type: "base64", media_type: "application/pdf", data: "JVBERg==" };

const CASES: readonly Case[] = [
  { format: chat, what: "an image", part: imageAt(`data:image/png;base64,${PNG}`) },
  { format: chat, what: "a file", part: { type: "file", file: { file_data: "x" } } },
  { format: chat, what: "a recording", part: { type: "input_audio", input_audio: { data: "x", format: "wav" } } },
  {
    format: messages,
    what: "an image",
    part: { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
  },
  { format: messages, what: "a document", part: { type: "document", source: PDF } },
  {
    format: responses,
    what: "an image",
    part: { type: "input_image", image_url: `data:image/png;base64,${PNG}` },
  },
  { format: responses, what: "a file", part: { type: "input_file", file_data: "x" } },
];

/** A call and its result with this content. */
const RESULTS: Readonly<Record<string, (content: readonly object[]) => readonly object[]>> = {
  chat: (content) => [
    { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c", content },
  ],
  messages: (content) => [
    { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content }, ...content.slice(1)] },
  ],
  responses: (content) => [
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: content },
  ],
};

/** Fields with the part before the last message of the user, in the result of a tool, or in the last message. */
function fieldsWith({ format, part }: Pick<Case, "format" | "part">, place: Place): object {
  const content = [{ type: format === responses ? "input_text" : "text", text: "Look." }, part];
  const said = { role: "user", content };
  const result = RESULTS[format.name]?.(content);
  const turns = { earlier: [said, { role: "user", content: "And?" }], result, last: [said] }[place];
  return { [format === responses ? "input" : "messages"]: turns };
}

describe.each(CASES)("$what that a model cannot read, in $format.name", ({ format, what, part }) => {
  const blind = { acceptsImages: () => false };
  const fields = (place: Place) => fieldsWith({ format, part }, place);
  const words = `"[Here was ${what}, which this model cannot read.]"`;

  test("content that a model cannot read becomes a text in a tool's result, and beside one", () => {
    const beside = format === messages ? ` | user ${words}` : "";
    expect(outline(requestOf(format, fields("result"), blind))).toBe(
      `assistant call(c f {}) | tool result(c f "Look." ${words})${beside}`,
    );
  });

  test("content that a model cannot read becomes one in an earlier message, so that the conversation continues", () => {
    expect(outline(requestOf(format, fields("earlier"), blind))).toContain(`user "Look." ${words}`);
  });

  test("content that a model cannot read is refused in the last one by its path, if it is the user's own", () => {
    expect(refusal(format, fields("last"), blind)).toMatch(
      /^unsupported_value \w+\[0\].content\[1\]|^messages\.0\.content\.1/,
    );
  });

  test("content that a model cannot read becomes a text there too, if so configured", () => {
    const request = requestOf(format, fields("last"), { ...blind, unreadableContent: "placeholder" });
    expect(outline(request)).toBe(`user "Look." ${words}`);
  });
});

test.each([
  "https://host.example/a.png",
  `data:image/svg+xml;base64,${Buffer.from("<svg/>").toString("base64")}`,
  "data:image/png;base64,bm90IGFuIGltYWdl",
])("the undecodable image %s is treated the same, for a model with image input too", (url) => {
  const fields = (place: Place) => fieldsWith({ format: chat, part: imageAt(url) }, place);
  for (const place of ["earlier", "result"] as const)
    expect(outline(requestOf(chat, fields(place)))).toContain("Here was an image");
  expect(() => requestOf(chat, fields("last"))).toThrow();
});

test("content without the form of an image is refused everywhere", () => {
  const fields = fieldsWith({ format: chat, part: { type: "image_url" } }, "result");
  expect(refusal(chat, fields)).toBe("missing_required_parameter messages[1].content[1].image_url");
});
