import { describe, expect, test } from "vitest";
import { ImageDetail, type Part, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { prepare, refusal, sealer } from "./prepared-request.ts";

const png = `data:image/png;base64,${Buffer.from("\x89PNG\r\n\x1a\n0000", "latin1").toString("base64")}`;
const user = { role: "user", content: "go" };
const call = (id: string, more: object = {}) => ({
  type: "function_call",
  call_id: id,
  name: "read",
  arguments: '{ "a":1}',
  ...more,
});
const output = (id: string, value: unknown = "done") => ({ type: "function_call_output", call_id: id, output: value });

/** Roles and parts of the canonical messages, in short form. */
function shape(input: unknown, extra: object = {}): readonly string[] {
  return prepare({ input, ...extra }).request.messages.map(
    ({ role, parts }) => `${Object.keys(Role).find((_, i) => i === role)} ${parts.map(partShape).join(" + ")}`,
  );
}

function partShape({ kind }: Part): string {
  switch (kind?.$case) {
    case "text":
    case "reasoning":
      return `${kind.$case}(${kind.value.text})`;
    case "toolCall":
      return `call(${kind.value.callId} ${kind.value.name} ${kind.value.argumentsJson})`;
    case "toolResult":
      return `result(${kind.value.callId} ${kind.value.name} ${kind.value.content.map(partShape).join(" + ")})`;
    default:
      return kind?.$case ?? "none";
  }
}

describe("messages", () => {
  test("instructions come first, system and developer items stay where they are", () => {
    const input = [user, { role: "developer", content: "d" }, { type: "message", role: "system", content: "s" }, user];
    expect(shape(input, { instructions: "i" })).toEqual([
      "SYSTEM text(i)",
      "USER text(go)",
      "SYSTEM text(d)",
      "SYSTEM text(s)",
      "USER text(go)",
    ]);
  });

  test("input and output text are accepted in every role, refusals as text, and unknown keys are ignored", () => {
    const input = [
      { ...user, content: [{ type: "output_text", text: "a", annotations: [] }], internal_passthrough: { x: 1 } },
      {
        role: "assistant",
        phase: "final_answer",
        content: [
          { type: "input_text", text: "b", extra: 1 },
          { type: "refusal", refusal: "c" },
        ],
      },
    ];
    expect(shape(input)).toEqual(["USER text(a)", "ASSISTANT text(b) + text(c)"]);
  });

  test("an assistant message may hold very many parts", () => {
    const content = Array.from({ length: 200_000 }, () => ({ type: "output_text", text: "" }));
    expect(prepare({ input: [{ role: "assistant", content }] }).request.messages[0]?.parts).toHaveLength(200_000);
  });

  test.each([
    [[{}], "missing_required_parameter", "input[0].type"],
    [[{ role: "tool", content: "x" }], "invalid_value", "input[0].role"],
    [[{ type: "message", content: "x" }], "missing_required_parameter", "input[0].role"],
    [[{ role: "user", content: [{}] }], "missing_required_parameter", "input[0].content[0].type"],
    [[{ role: "user", content: [{ type: "text", text: "x" }] }], "invalid_value", "input[0].content[0].type"],
    [[{ role: "user", content: [{ type: "input_file" }] }], "unsupported_value", "input[0].content[0].type"],
  ])("input %j is refused", (input, code, path) => {
    expect(refusal({ input }).slice(0, 2)).toEqual([code, path]);
  });
});

describe("images", () => {
  const image = (more: object = {}) => [
    { role: "user", content: [{ type: "input_image", image_url: png, detail: "auto", ...more }] },
  ];

  test.each([
    ["auto", ImageDetail.UNSPECIFIED],
    ["low", ImageDetail.LOW],
    ["high", ImageDetail.HIGH],
    ["original", ImageDetail.HIGH],
    [null, ImageDetail.UNSPECIFIED],
  ])("detail %s is supported", (detail, expected) => {
    const part = prepare({ input: image({ detail }) }).request.messages[0]?.parts[0]?.kind;
    expect(part).toMatchObject({ $case: "image", value: { mimeType: "image/png", detail: expected } });
  });

  test("are accepted in function call outputs", () => {
    const result = output("c", [
      { type: "input_text", text: "t" },
      { type: "input_image", image_url: png },
    ]);
    expect(shape([user, call("c"), result])[2]).toBe("TOOL result(c read text(t) + image)");
  });

  test.each([
    [image(), { images: false }, "unsupported_value", "input[0].content[0]"],
    [image({ image_url: "https://example.com/a.png" }), {}, "unsupported_value", "input[0].content[0].image_url"],
    [image({ image_url: null }), {}, "missing_required_parameter", "input[0].content[0].image_url"],
    [image({ file_id: "file_1" }), {}, "unsupported_parameter", "input[0].content[0].file_id"],
    [image({ detail: "tiny" }), {}, "invalid_value", "input[0].content[0].detail"],
    [[{ ...image()[0], role: "system" }], {}, "unsupported_value", "input[0].content[0]"],
  ])("are refused with the path of the part (%#)", (input, options, code, path) => {
    expect(refusal({ input }, options).slice(0, 2)).toEqual([code, path]);
  });
});

describe("tool loop", () => {
  test("neighbouring assistant items are one turn, every output a turn of its own", () => {
    const input = [
      user,
      { type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
      { role: "assistant", content: "I look" },
      call("c1"),
      call("c2", { arguments: "" }),
      output("c1"),
      output("c2", [{ type: "input_text", text: "two" }]),
      { role: "assistant", content: "done" },
    ];
    expect(shape(input)).toEqual([
      "USER text(go)",
      'ASSISTANT reasoning(hm) + text(I look) + call(c1 read { "a":1}) + call(c2 read {})',
      "TOOL result(c1 read text(done))",
      "TOOL result(c2 read text(two))",
      "ASSISTANT text(done)",
    ]);
  });

  test("a call in a namespace comes back under the model's name, and so does its output", () => {
    expect(shape([user, call("c", { namespace: "fs" }), output("c")]).slice(1)).toEqual([
      'ASSISTANT call(c fs__read { "a":1})',
      "TOOL result(c fs__read text(done))",
    ]);
  });

  test("arguments that are not JSON are unchanged", () => {
    expect(shape([user, call("c", { arguments: "{oops" }), output("c")])[1]).toBe("ASSISTANT call(c read {oops)");
  });

  test.each([
    [call(""), "invalid_value", "input[1].call_id"],
    [call("c", { call_id: undefined }), "missing_required_parameter", "input[1].call_id"],
  ])("a malformed call is refused (%#)", (item, code, path) => {
    expect(refusal({ input: [user, item] }).slice(0, 2)).toEqual([code, path]);
  });

  test.each([
    [undefined, "missing_required_parameter", "input[2].output"],
    [{}, "invalid_type", "input[2].output"],
  ])("output %j is refused", (value, code, path) => {
    expect(refusal({ input: [user, call("c"), { ...output("c"), output: value }] }).slice(0, 2)).toEqual([code, path]);
  });
});

describe("reasoning that comes back", () => {
  const sealed = sealer.seal("deep");
  const summary = [
    { type: "summary_text", text: "short" },
    { type: "summary_text", text: "er" },
  ];
  const content = [{ type: "reasoning_text", text: "plain" }];

  test.each([
    [{ summary, content, encrypted_content: sealed }, "reasoning(deep) + "],
    [{ encrypted_content: sealed }, "reasoning(deep) + "],
    [{ summary, content, encrypted_content: "of another service" }, "reasoning(plain) + "],
    [{ summary: [], content: null, encrypted_content: "of another service" }, ""],
    [{ summary, content: null }, "reasoning(short\n\ner) + "],
    [{ content: [{ type: "other", text: "x" }, 3], summary: "odd" }, ""],
    [{}, ""],
  ])("%j gives %j", (item, expected) => {
    const input = [user, { type: "reasoning", ...item }, { role: "assistant", content: "a" }];
    expect(shape(input)[1]).toBe(`ASSISTANT ${expected}text(a)`);
  });
});

describe("unsupported items", () => {
  test.each([[{ type: "item_reference", id: "rs_1" }], [{ id: "rs_1" }]])(
    "the reference %j is refused, naming it and the fix",
    (item) => {
      const [code, path, message] = refusal({ input: [user, item] });
      expect([code, path]).toEqual(["unsupported_value", "input[1].type"]);
      expect(message).toMatch(/item_reference.*Set 'store' to false.*providerOptions\.openai\.store = false/);
    },
  );

  test.each(["web_search_call", "shell_call", "custom_tool_call", "mcp_call"])("%s is unsupported", (type) => {
    expect(refusal({ input: [{ type }] }).slice(0, 2)).toEqual(["unsupported_value", "input[0].type"]);
  });

  test("an unknown type is invalid", () => {
    expect(refusal({ input: [{ type: "surprise" }] }).slice(0, 2)).toEqual(["invalid_value", "input[0].type"]);
  });
});
