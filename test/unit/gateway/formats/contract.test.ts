import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { describe, expect, test } from "vitest";
import { contractCount, contractGenerate } from "../../../../gateway/formats/contract/request.ts";
import {
  Continuation,
  CountTokensRequest,
  GenerateRequest,
  type OutputConstraint,
  Reasoning,
  ReasoningMode,
  Sampling,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  ImageDetail,
  type Message,
  type Part,
  Role,
  type ToolChoice,
  ToolChoiceMode,
} from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest, textMessage, toolOf } from "../../../support/requests/generate-request.ts";
import { contextOf, faultOf, thrownBy } from "./fixture.ts";

/* A message of the contract from a caller becomes a canonical request, or the error of its first fault. */

function prepare(fields: Partial<GenerateRequest> = {}, acceptsImages = true) {
  const bytes = Buffer.from(GenerateRequest.encode(generateRequest(fields)).finish());
  return contractGenerate.prepare(bytes, contextOf({ acceptsImages: () => acceptsImages })).request;
}

const part = (kind: Part["kind"]): Part => ({ kind, cacheBreakpoint: undefined });
const message = (role: Role, ...kinds: Part["kind"][]): Message => ({ role, parts: kinds.map(part), name: undefined });
const call = (callId: string, name = "look", argumentsJson = "{}"): Part["kind"] => ({
  $case: "toolCall",
  value: { callId, name, argumentsJson },
});
const reasoning = (text: string, redacted = false): Part["kind"] => ({
  $case: "reasoning",
  value: { text, signature: Buffer.from("seal"), redacted },
});
const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex");
const image = (value: object = {}) => {
  const source = { $case: "data", value: PNG };
  return {
    $case: "image",
    value: { source, mimeType: "image/png", detail: ImageDetail.UNSPECIFIED, contentSha256: Buffer.alloc(0), ...value },
  } as Part["kind"];
};
const schema = (schemaJson: string, name = ""): OutputConstraint => ({
  kind: { $case: "jsonSchema", value: { schemaJson, strict: true, name } },
});
const tools = [toolOf("look", { type: "object" }), toolOf("find", {})];
const deferred = [{ ...toolOf("look", {}), deferred: true }];
const declaration = (...names: string[]): Part["kind"] => ({ $case: "toolDeclaration", value: { names } });
const choice = (fields: Partial<ToolChoice>): ToolChoice => ({
  ...{ mode: ToolChoiceMode.AUTO, name: "", allowedNames: [], disableParallelCalls: false },
  ...fields,
});
const hints = (fields: object) => ({ affinityKey: "a", isolationSalt: "of another", ttl: undefined, ...fields });
const ttl = (seconds: number) => hints({ ttl: { seconds, nanos: 0 } });
const named = choice({ mode: ToolChoiceMode.NAMED, name: "look" });
const sampling = (fields: Partial<Sampling>) => ({ sampling: { ...Sampling.create(), ...fields } });
const budget = (budgetTokens: number) => Reasoning.create({ mode: ReasoningMode.ENABLED, budgetTokens });
const unknown = 9 as never;

describe("a field at fault is refused by its path", () => {
  test.each<[Partial<GenerateRequest>, string]>([
    [{ model: "" }, "model"],
    [{ continuation: Continuation.create() }, "continuation"],
    [{ messages: [] }, "messages"],
    [{ messages: [textMessage(unknown, "x")] }, "messages[0].role"],
    [{ messages: [message(Role.USER, call("1"))] }, "messages[0].parts[0].tool_call"],
    [{ messages: [message(Role.SYSTEM, image())] }, "messages[0].parts[0].image"],
    [{ messages: [message(Role.ASSISTANT, declaration("look"))] }, "messages[0].parts[0].tool_declaration"],
    [{ messages: [message(Role.ASSISTANT, call(""))] }, "messages[0].parts[0].tool_call.call_id"],
    [{ messages: [message(Role.ASSISTANT, call("1", "a\nb"))] }, "messages[0].parts[0].tool_call.name"],
    [{ messages: [message(Role.ASSISTANT, call("1"), call("1"))] }, "messages[0].parts[1].tool_call.call_id"],
    [{ messages: [message(Role.USER, image({ source: undefined }))] }, "messages[0].parts[0].image.data"],
    [
      { messages: [message(Role.USER, image({ source: { $case: "uri", value: "http://10.0.0.1/" } }))] },
      "messages[0].parts[0].image.uri",
    ],
    [{ messages: [message(Role.USER, image({ detail: 9 }))] }, "messages[0].parts[0].image.detail"],
    [sampling({ temperature: Number.NaN }), "sampling.temperature"],
    [sampling({ temperature: 2.1 }), "sampling.temperature"],
    [sampling({ topP: 1.1 }), "sampling.top_p"],
    [sampling({ minP: -0.1 }), "sampling.min_p"],
    [sampling({ repetitionPenalty: 0 }), "sampling.repetition_penalty"],
    [sampling({ topLogprobs: 51 }), "sampling.top_logprobs"],
    [sampling({ logitBias: { 5: 1_001 } }), "sampling.logit_bias"],
    [sampling({ stop: Array.from({ length: 200 }, (_, at) => `${at}`) }), "sampling.stop"],
    [{ reasoning: Reasoning.create({ mode: unknown }) }, "reasoning.mode"],
    [{ reasoning: Reasoning.create({ effort: unknown }) }, "reasoning.effort"],
    [{ reasoning: budget(0) }, "reasoning.budget_tokens"],
    [{ outputConstraint: schema("{") }, "output_constraint.json_schema.schema_json"],
    [{ outputConstraint: schema("[]") }, "output_constraint.json_schema.schema_json"],
    [{ outputConstraint: schema(`{"a":"${"x".repeat(2 ** 21)}"}`) }, "output_constraint.json_schema.schema_json"],
    [{ outputConstraint: schema("{}", "x".repeat(65)) }, "output_constraint.json_schema.name"],
    [{ cache: hints({ affinityKey: "x".repeat(513) }) }, "cache.affinity_key"],
    [{ cache: ttl(-1) }, "cache.ttl"],
    [{ cache: ttl(86_401) }, "cache.ttl"],
    [{ tools: [toolOf("", {})] }, "tools[0].name"],
    [{ tools: [toolOf("look", {}), toolOf("look", {})] }, "tools[1].name"],
    [{ tools: [{ ...toolOf("look", {}), parametersJsonSchema: "7" }] }, "tools[0].parameters_json_schema"],
    [{ tools, toolChoice: choice({ mode: unknown }) }, "tool_choice.mode"],
    [{ tools, toolChoice: choice({ mode: ToolChoiceMode.NAMED, name: "gone" }) }, "tool_choice.name"],
    [{ tools: [...deferred, toolOf("find", {})], toolChoice: named }, "tool_choice.name"],
    [{ tools: deferred, toolChoice: choice({ mode: ToolChoiceMode.REQUIRED }) }, "tool_choice"],
    [{ tools, toolChoice: choice({ allowedNames: ["look", "gone"] }) }, "tool_choice.allowed_names[1]"],
    [{ toolChoice: choice({ mode: ToolChoiceMode.REQUIRED }) }, "tool_choice"],
  ])("a field at fault of the contract is refused by its path, case %#", (fields, param) => {
    expect(faultOf(() => prepare(fields)).split(" ")[1]).toBe(param);
  });

  test("an image for a model without image input", () => {
    const messages = [message(Role.USER, image())];
    expect(faultOf(() => prepare({ messages }, false))).toBe("unsupported_value messages[0].parts[0].image");
  });
});

test("an unknown model, and a body that is no message, are refused", () => {
  expect(faultOf(() => prepare({ model: "gpt" }))).toBe("model_not_found model");
  expect(thrownBy(() => contractGenerate.prepare({}, contextOf())).detail).toBe("message_unreadable");
});

test("a deferred tool may be chosen where a message declares it", () => {
  const sent = { tools: deferred, toolChoice: named, messages: [message(Role.USER, declaration("gone", "look"))] };
  expect(prepare(sent)).toMatchObject(sent);
});

test("only fields that a caller may set are passed on", () => {
  const request = prepare({ tenant: "another", requestId: "own", maxOutputTokens: 5, cache: hints({}) });
  expect(request).toMatchObject({ model: "svc-qwen", maxOutputTokens: 5 });
  expect(Object.keys(request)).not.toEqual(expect.arrayContaining(["tenant", "requestId"]));
  expect(request.cache).toEqual({ affinityKey: "a", isolationSalt: "", ttl: undefined });
});

test("the answer gets no more tokens than the window holds, and some beside its reasoning", () => {
  expect(prepare({ maxOutputTokens: 10_000_000 }).maxOutputTokens).toBe(262_144);
  expect(prepare().maxOutputTokens).toBeUndefined();
  const left = [100, 1, undefined].map((maxOutputTokens) => prepare({ reasoning: budget(500), maxOutputTokens }));
  expect(left.map(({ reasoning }) => reasoning?.budgetTokens)).toEqual([99, 1, 500]);
});

test("absent sampling stays absent, and empty stop strings are none", () => {
  expect(prepare({ sampling: undefined }).sampling).toBeUndefined();
  const { sampling: checked } = prepare(sampling({ stop: ["", "END"] }));
  expect(checked).toMatchObject({ stop: ["END"] });
  expect(checked?.temperature).toBeUndefined();
});

test("schemas keep their text byte for byte, and a tool without one has an empty one", () => {
  const outputConstraint = schema('{ "type" : "object" }');
  const written = { ...toolOf("look", {}), parametersJsonSchema: '{ "type" : "object" }' };
  const request = prepare({ outputConstraint, tools: [written, { ...toolOf("find", {}), parametersJsonSchema: "" }] });
  expect(request.outputConstraint).toEqual(outputConstraint);
  expect(request.tools.map((tool) => tool.parametersJsonSchema)).toEqual([
    '{ "type" : "object" }',
    '{"type":"object","properties":{}}',
  ]);
  expect(prepare({ toolChoice: choice({}) }).toolChoice).toBeUndefined();
});

test("arguments are passed on byte for byte, even invalid JSON; absent ones are an empty object", () => {
  const textOf = (text: string) => {
    const kind = prepare({ messages: [message(Role.ASSISTANT, call("1", "look", text))] }).messages[0]?.parts[0]?.kind;
    return kind?.$case === "toolCall" && kind.value.argumentsJson;
  };
  expect(["{oops", '{ "a": 1 }', ""].map(textOf)).toEqual(["{oops", '{ "a": 1 }', "{}"]);
});

test("empty and redacted reasoning is left out, and signatures are", () => {
  const given = [undefined, reasoning(""), reasoning("hidden", true), reasoning("thought")];
  expect(prepare({ messages: [message(Role.ASSISTANT, ...given)] }).messages[0]?.parts).toEqual([
    part({ $case: "reasoning", value: { text: "thought", signature: Buffer.alloc(0), redacted: false } }),
  ]);
});

test("G1 bytes that are not a message are not quoted", () => {
  const whole = Buffer.from(GenerateRequest.encode(generateRequest({}, "secret words")).finish());
  const error = thrownBy(() => contractGenerate.prepare(whole.subarray(0, -3), contextOf()));
  expect(error.detail).toBe("message_unreadable");
  expect(error.message).not.toContain("secret");
});

test("G1 a message of too many pieces costs no more than finding that out", () => {
  // An empty field is two bytes on the wire, and an object in memory.
  const pieces = new BinaryWriter();
  for (let at = 0; at < 200_001; at += 1) pieces.uint32((2 << 3) | 2).uint32(0);
  expect(thrownBy(() => contractGenerate.prepare(pieces.finish(), contextOf())).detail).toBe("message_pieces");
});

test("CountTokens has the same checks as Generate", () => {
  const count = (fields: object) => {
    const request = CountTokensRequest.create({ model: "svc-qwen", messages: generateRequest().messages, ...fields });
    return contractCount.prepare(Buffer.from(CountTokensRequest.encode(request).finish()), contextOf());
  };
  expect(count({}).request).toMatchObject({ model: "svc-qwen", tools: [] });
  expect(faultOf(() => count({ messages: [] }))).toBe("empty_array messages");
});
