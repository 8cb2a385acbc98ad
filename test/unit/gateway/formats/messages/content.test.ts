import { describe, expect, test } from "vitest";
import { allParts, contentBlocks, type Place } from "../../../../../gateway/formats/messages/content.ts";
import { context, errorOf } from "./fixture.ts";

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").toString("base64");
const PATH = ["messages", 0, "content"];

function read(content: unknown, place: Place = "user", acceptsImages = true) {
  return allParts(contentBlocks(content, PATH, place), {
    acceptsImages,
    unreadable: "reject",
    sealer: context.sealer("svc-qwen"),
  });
}

const text = (value: string) => ({ kind: { $case: "text", value: { text: value } } });
const reasoning = (value: string) => ({
  kind: { $case: "reasoning", value: { text: value, signature: Buffer.alloc(0), redacted: false } },
});
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };

describe("text", () => {
  test("a string is one text block", () => {
    expect(read("hi")).toEqual([text("hi")]);
    expect(read([{ type: "text", text: "hi", citations: null }])).toEqual([text("hi")]);
  });

  test("empty text is left out", () => {
    expect(read("")).toEqual([]);
    expect(read([{ type: "text", text: "" }])).toEqual([]);
  });

  test.each([
    ["5m", { seconds: 300, nanos: 0 }],
    ["1h", { seconds: 3600, nanos: 0 }],
    ["9y", undefined],
    [undefined, undefined],
  ])("a breakpoint with ttl %s stays at its part", (ttl, expected) => {
    const parts = read([{ type: "text", text: "a", cache_control: { type: "ephemeral", ttl } }]);
    expect(parts).toEqual([{ ...text("a"), cacheBreakpoint: { ttl: expected } }]);
  });
});

describe("images", () => {
  test("base64 and data URLs give the same part", () => {
    const [fromBase64] = read([image]);
    const [fromUrl] = read([{ type: "image", source: { type: "url", url: `data:image/png;base64,${PNG}` } }]);
    expect(fromBase64).toMatchObject({ kind: { $case: "image", value: { mimeType: "image/png" } } });
    expect(fromUrl).toEqual(fromBase64);
  });

  test.each([
    [{ type: "url", url: "https://a.test/x.png" }, "messages.0.content.0.source.url: Only 'data:' URLs"],
    [{ type: "file", file_id: "f" }, "messages.0.content.0.source.type: Files are not stored here"],
    [{ type: "disk" }, "messages.0.content.0.source.type: Input should be 'base64', 'url'"],
    [{ type: "base64", data: PNG }, "messages.0.content.0.source.media_type: Field required"],
    [{ type: "base64", media_type: "image/gif", data: "Qk0=" }, "messages.0.content.0.source.data: the data is not"],
    [undefined, "messages.0.content.0.source: Field required"],
  ])("the source %j is refused", (source, message) => {
    expect(errorOf(() => read([{ type: "image", source }])).message).toContain(message);
  });

  test("a model without images refuses them by the path of the block", () => {
    const message = "messages.0.content.1: This model does not take images.";
    expect(errorOf(() => read([{ type: "text", text: "a" }, image], "user", false)).message).toBe(message);
  });
});

describe("documents and search results", () => {
  test("a text document becomes tagged text in the prompt", () => {
    const source = { type: "text", media_type: "text/plain", data: "Body." };
    expect(read([{ type: "document", source, title: "T", context: "C", citations: { enabled: true } }])).toEqual([
      text("<document>\n<title>T</title>\n<context>C</context>\nBody.\n</document>"),
    ]);
  });

  test("a document of blocks keeps its images, and its breakpoint after the last part", () => {
    const source = { type: "content", content: [{ type: "text", text: "a" }, image, { type: "text", text: "b" }] };
    const parts = read([{ type: "document", source, cache_control: { type: "ephemeral" } }]);
    expect(parts.map((part) => part.kind?.$case)).toEqual(["text", "image", "text"]);
    expect(parts[0]).toEqual(text("<document>\na\n"));
    expect(parts[2]).toEqual({ ...text("b\n</document>"), cacheBreakpoint: { ttl: undefined } });
    expect(read([{ type: "document", source: { type: "content", content: "a" } }])).toEqual([
      text("<document>\na\n</document>"),
    ]);
  });

  test.each([["base64"], ["url"], ["file"]])("a document of the type %s is refused", (type) => {
    expect(errorOf(() => read([{ type: "document", source: { type } }])).message).toContain(
      "messages.0.content.0.source.type: Only documents of the types 'text' and 'content' are supported.",
    );
  });

  test("a search result names its source", () => {
    const block = { type: "search_result", source: "wiki", title: "T", content: [{ type: "text", text: "Found." }] };
    expect(read([block])).toEqual([
      text("<search_result>\n<title>T</title>\n<source>wiki</source>\nFound.\n</search_result>"),
    ]);
  });

  test("a tool reference inside a tool result is a short text", () => {
    expect(read([{ type: "tool_reference", tool_name: "grep" }], "tool_result")).toEqual([text("Tool found: grep")]);
  });
});

describe("an assistant's turn", () => {
  test.each([["sig"], [""], [undefined], [null]])("thinking with the signature %j keeps its text", (signature) => {
    expect(read([{ type: "thinking", thinking: "Hm.", signature }], "assistant")).toEqual([reasoning("Hm.")]);
  });

  test("withheld thinking is restored from its own signature, and from no other", () => {
    const withheld = (signature: string) => read([{ type: "thinking", thinking: "", signature }], "assistant");
    expect(withheld("sealed:Hm.")).toEqual([reasoning("Hm.")]);
    expect(withheld("foreign")).toEqual([]);
  });

  test("a call keeps the order of its arguments", () => {
    const [part] = read([{ type: "tool_use", id: "t1", name: "read", input: { b: 1, a: [true, null] } }], "assistant");
    expect(part).toEqual({
      kind: { $case: "toolCall", value: { callId: "t1", name: "read", argumentsJson: '{"b":1,"a":[true,null]}' } },
    });
  });

  test.each([
    [{ type: "tool_use", id: "", name: "n", input: {} }, "messages.0.content.0.id: expected a non-empty string."],
    [{ type: "tool_use", id: "t", input: {} }, "messages.0.content.0.name: Field required"],
    [{ type: "tool_use", id: "t", name: "n", input: "{}" }, "messages.0.content.0.input: Input should be an object"],
    [{ type: "thinking", thinking: 1 }, "messages.0.content.0.thinking: Input should be a string"],
  ])("%j is refused", (block, message) => {
    expect(errorOf(() => read([block], "assistant")).message).toBe(message);
  });

  test.each([
    "redacted_thinking",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
  ])("%s is left out, even alone", (type) => {
    expect(read([{ type }, { type: "text", text: "a" }], "assistant")).toEqual([text("a")]);
    expect(read([{ type }], "assistant")).toEqual([]);
  });

  test("a compaction is the text of the items that it replaces", () => {
    expect(read([{ type: "compaction", content: "So far." }], "assistant")).toEqual([text("So far.")]);
    expect(read([{ type: "compaction", content: null }], "assistant")).toEqual([]);
  });
});

describe("kinds", () => {
  test("an unknown kind is left out beside others and refused alone", () => {
    expect(read([{ type: "hologram" }, { type: "text", text: "a" }])).toEqual([text("a")]);
    expect(errorOf(() => read([{ type: "hologram" }])).message).toBe(
      "messages.0.content.0.type: Input should be 'text', 'image', 'document', 'search_result', 'tool_result', 'compaction'",
    );
  });

  test.each([
    ["tool_use", "user", "assistant"],
    ["thinking", "user", "assistant"],
    ["tool_result", "assistant", "user"],
    ["image", "assistant", "user, tool_result, document"],
  ] as const)("%s is refused in a turn of the %s", (type, place, places) => {
    expect(errorOf(() => read([{ type }], place)).message).toBe(
      `messages.0.content.0.type: '${type}' blocks may not stand here, only in: ${places}.`,
    );
  });

  test.each([
    [7, "messages.0.content: Input should be a string or an array of content blocks"],
    [["x"], "messages.0.content.0: Input should be an object"],
    [[{}], "messages.0.content.0.type: Field required"],
    [[{ type: 1 }], "messages.0.content.0.type: Input should be a string"],
    [[{ type: "constructor" }], "messages.0.content.0.type: Input should be 'text'"],
  ])("the content %j is refused", (content, message) => {
    expect(errorOf(() => read(content)).message).toContain(message);
  });
});
