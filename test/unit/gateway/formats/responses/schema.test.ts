import { describe, expect, test } from "vitest";
import { responses } from "../../../../../gateway/formats/responses/request.ts";
import { CONTEXT } from "../../../../support/events/encoding-context.ts";
import { head, prepare, refusal } from "./prepared-request.ts";

const neutral = {
  stream: false,
  store: false,
  background: false,
  previous_response_id: null,
  conversation: null,
  prompt: null,
  moderation: null,
  context_management: [],
  truncation: "disabled",
  service_tier: "priority",
  stream_options: { include_obfuscation: true },
  max_tool_calls: 3,
  frequency_penalty: null,
  presence_penalty: null,
  include: [],
  tools: [],
  tool_choice: "auto",
  text: {},
  reasoning: { effort: null, summary: null, context: "auto", mode: "standard" },
  metadata: {},
  client_metadata: {},
  prompt_cache_retention: "24h",
  prompt_cache_options: { ttl: "1h" },
  safety_identifier: "s",
  user: "u",
};

describe("fields without effect", () => {
  test("are accepted with their neutral values", () => {
    expect(prepare(neutral).request).toEqual(prepare().request);
  });

  test.each(Object.keys(neutral))("%s may be null", (key) => {
    expect(prepare({ [key]: null }).request).toEqual(prepare().request);
  });

  test.each([
    ["moderation", { model: "m" }, "unsupported_parameter"],
    ["context_management", [{ type: "compaction" }], "unsupported_parameter"],
  ])("%s is refused with the value %j", (key, value, code) => {
    expect(refusal({ [key]: value }).slice(0, 2)).toEqual([code, key]);
  });

  test("nested ones are refused with their whole path", () => {
    const refused = [refusal({ reasoning: { context: "other" } }), refusal({ reasoning: { mode: "pro" } })];
    expect(refused.map(([code, path]) => `${code} ${path}`)).toEqual([
      "unsupported_value reasoning.context",
      "unsupported_value reasoning.mode",
    ]);
  });
});

describe("top-level keys", () => {
  test.each(["messages", "max_tokens", "response_format", "stop", "thread"])("%s is unknown, even as null", (key) => {
    expect(refusal({ [key]: ["x"] })).toEqual(["unknown_parameter", key, `Unknown parameter: '${key}'.`]);
    expect(refusal({ [key]: null })[0]).toBe("unknown_parameter");
  });

  test("a missing model is reported before a missing input, and both before other faults", () => {
    expect(() => responses.prepare({ stop: 1 }, CONTEXT)).toThrow("Missing required parameter: 'model'.");
    expect(() => responses.prepare({ model: "svc-qwen", stop: 1 }, CONTEXT)).toThrow(
      "Missing required parameter: 'input'.",
    );
    expect(() => responses.prepare([], CONTEXT)).toThrow("The request body must be a JSON object.");
  });
});

describe("values", () => {
  test.each([
    [{ temperature: -0.1 }, "decimal_below_min_value", "temperature"],
    [{ top_p: 1.5 }, "decimal_above_max_value", "top_p"],
    [{ top_logprobs: 21 }, "integer_above_max_value", "top_logprobs"],
    [{ max_output_tokens: 0 }, "integer_below_min_value", "max_output_tokens"],
    [{ text: { verbosity: "loud" } }, "invalid_value", "text.verbosity"],
    [{ reasoning: { summary: "long" } }, "invalid_value", "reasoning.summary"],
    [{ reasoning: { effort: "huge" } }, "invalid_value", "reasoning.effort"],
    [{ frequency_penalty: 2.5 }, "decimal_above_max_value", "frequency_penalty"],
    [{ presence_penalty: -2.5 }, "decimal_below_min_value", "presence_penalty"],
    [{ max_tool_calls: 0 }, "integer_below_min_value", "max_tool_calls"],
    [{ metadata: { a: 1 } }, "invalid_type", "metadata"],
    [{ metadata: { ["k".repeat(65)]: "v" } }, "string_above_max_length", "metadata"],
    [{ metadata: { k: "v".repeat(513) } }, "string_above_max_length", "metadata"],
    [{ client_metadata: { a: {} } }, "invalid_type", "client_metadata"],
    [{ client_metadata: { a: "é".repeat(8_192) } }, "string_above_max_length", "client_metadata"],
  ])("%j is refused", (extra, code, path) => {
    expect(refusal(extra).slice(0, 2)).toEqual([code, path]);
  });

  test("metadata holds at most 16 pairs", () => {
    const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]));
    expect(prepare({ metadata: pairs(16) }).model).toBe("svc-qwen");
    expect(refusal({ metadata: pairs(17) }).slice(0, 2)).toEqual(["array_above_max_length", "metadata"]);
  });

  test("lengths count characters", () => {
    expect(prepare({ prompt_cache_key: "😀".repeat(512) }).request.cache?.affinityKey).toHaveLength(1_024);
    expect(refusal({ prompt_cache_key: "😀".repeat(513) })[0]).toBe("string_above_max_length");
  });

  test("client metadata of 16 KiB is accepted and stays out of the reply", () => {
    const prepared = prepare({ client_metadata: { a: "x".repeat(16_383) } });
    expect(prepared.encoder(head).keepAlive()).not.toContain("client_metadata");
  });

  test("no refusal repeats the caller's text", () => {
    const secret = "canary-1f9";
    const bodies = [
      { temperature: secret },
      { metadata: { [secret]: 1 } },
      { client_metadata: { [secret]: 1 } },
      { reasoning: { effort: secret } },
      { include: [secret] },
      { previous_response_id: secret },
      { text: { [`${secret} `]: 1 } },
      { text: { format: { type: "text", [`${secret} `]: 1 } } },
      { model: `${secret} ` },
      { model: `svc/${secret} ` },
      { text: { format: { type: secret } } },
      { tools: [{ type: secret }] },
      { tool_choice: secret },
      { input: [{ type: secret }] },
      { input: [{ role: secret, content: "x" }] },
      { input: [{ type: "function_call_output", call_id: secret, output: "x" }] },
      { input: [{ type: "function_call", call_id: secret, name: "f", arguments: "{}" }] },
    ];
    expect(bodies.map((body) => refusal(body).join(" ")).filter((words) => words.includes(secret))).toEqual([]);
  });
});
