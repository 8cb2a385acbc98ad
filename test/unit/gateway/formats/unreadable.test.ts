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

type Dialect = {
  readonly format: Format;
  /** Parts in this format that a model without images cannot read, by their kind. */
  readonly parts: Readonly<Record<string, object>>;
  /** The body of a conversation that continues after a user's content, after a tool's result, or ends with a user's. */
  readonly body: (place: "earlier" | "result" | "last", part: object) => object;
  /** The paths of the part in the last message. */
  readonly lastPath: string;
};

const textPart = (type: string) => ({ type, text: "Look." });

const DIALECTS: Readonly<Record<string, Dialect>> = {
  chat: {
    format: chat,
    parts: {
      "an image": { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
      "a file": { type: "file", file: { file_data: "x" } },
      "a recording": { type: "input_audio", input_audio: { data: "x", format: "wav" } },
    },
    body(place, part) {
      const content = [textPart("text"), part];
      const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
      const used = [
        { role: "user", content: "Go." },
        { role: "assistant", tool_calls: [call] },
        { role: "tool", tool_call_id: "c", content },
      ];
      if (place === "result") return { messages: used };
      const said = { role: "user", content };
      return { messages: place === "last" ? [said] : [said, { role: "user", content: "And?" }] };
    },
    lastPath: "messages[0].content[1]",
  },
  messages: {
    format: messages,
    parts: {
      "an image": { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      "a document": { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERg==" } },
    },
    body(place, part) {
      const content = [textPart("text"), part];
      const rest = { max_tokens: 9 };
      const use = { type: "tool_use", id: "c", name: "f", input: {} };
      const result = { type: "tool_result", tool_use_id: "c", content };
      if (place === "result")
        return {
          ...rest,
          messages: [
            { role: "assistant", content: [use] },
            { role: "user", content: [result, part] },
          ],
        };
      const said = { role: "user", content };
      return { ...rest, messages: place === "last" ? [said] : [said, { role: "user", content: "And?" }] };
    },
    lastPath: "messages[0].content[1]",
  },
  responses: {
    format: responses,
    parts: {
      "an image": { type: "input_image", image_url: `data:image/png;base64,${PNG}` },
      "a file": { type: "input_file", file_data: "x" },
    },
    body(place, part) {
      const content = [textPart("input_text"), part];
      const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
      if (place === "result") return { input: [call, { type: "function_call_output", call_id: "c", output: content }] };
      const said = { role: "user", content };
      return { input: place === "last" ? [said] : [said, { role: "user", content: "And?" }] };
    },
    lastPath: "input[0].content[1]",
  },
};

const CASES = Object.entries(DIALECTS).flatMap(([name, dialect]) =>
  Object.entries(dialect.parts).map(([what, part]) => ({ name, dialect, what, part })),
);

/** The texts of the messages of a role, including those in results. */
function textsOf({ messages: all }: CanonicalRequest, role: Role): readonly string[] {
  const parts = all.filter((message) => message.role === role).flatMap((message) => message.parts);
  const inner = parts.flatMap((one) => (one.kind?.$case === "toolResult" ? one.kind.value.content : [one]));
  return inner.flatMap(({ kind }) => (kind?.$case === "text" ? [kind.value.text] : []));
}

describe.each(CASES)(
  "$what that a model cannot read, in $name",
  ({ dialect: { format, body, lastPath }, what, part }) => {
    const read = (place: Parameters<Dialect["body"]>[0], unreadableContent: UnreadableRule = "reject") =>
      format.prepare(
        { model: "svc-qwen", ...body(place, part) },
        { ...CONTEXT, acceptsImages: () => false, settings: { ...CONTEXT.settings, unreadableContent } },
      ).request;
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
      expect(param).toMatch(lastPath);
    });

    test("becomes a text there too, if so configured", () => {
      expect(textsOf(read("last", "placeholder"), Role.USER)).toEqual(["Look.", instead]);
    });
  },
);

describe("an undecodable image is treated the same, for a model with image input too", () => {
  test.each([
    ["one that is elsewhere", "https://host.example/a.png"],
    ["one of another type", `data:image/svg+xml;base64,${Buffer.from("<svg/>").toString("base64")}`],
    ["one that is none", "data:image/png;base64,bm90IGFuIGltYWdl"],
  ])("%s", (_what, url) => {
    const part = { type: "image_url", image_url: { url } };
    const read = (place: "earlier" | "result" | "last") =>
      chat.prepare(
        { model: "svc-qwen", ...DIALECTS.chat?.body(place, part) },
        { ...CONTEXT, acceptsImages: () => true },
      );
    for (const place of ["earlier", "result"] as const)
      expect(JSON.stringify(read(place).request)).toContain("Here was an image");
    expect(() => read("last")).toThrow();
  });

  test("content without the form of an image is refused everywhere", () => {
    const body = DIALECTS.chat?.body("result", { type: "image_url" });
    const read = () => chat.prepare({ model: "svc-qwen", ...body }, { ...CONTEXT, acceptsImages: () => true });
    expect(faultOf(read).code).toBe("missing_required_parameter");
  });
});
