import { beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, text, tool, toolResult, user } from "../support/engine/canonical.ts";
import { ask, missing, request, sharedBackend } from "../support/engine/demo-engine.ts";

const WEATHER = tool("get_weather", "Get the weather for a city");
const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 150 } },
  required: ["name", "age"],
  additionalProperties: false,
};

const choose = (mode: ToolChoiceMode, more: Partial<ToolChoice> = {}): ToolChoice => ({
  mode,
  name: "",
  disableParallelCalls: false,
  allowedNames: [],
  ...more,
});
const jsonSchema = (schema: object): Pick<GenerateRequest, "outputConstraint"> => ({
  outputConstraint: {
    kind: { $case: "jsonSchema", value: { name: "answer", schemaJson: JSON.stringify(schema), strict: true } },
  },
});

describe.skipIf(missing !== "")("constraints on the answer", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await sharedBackend();
  });

  test("a tool is called at the model's choice, and its result gets an answer", async () => {
    const question = [user("What is the weather in Ljubljana?")];
    const reply = await ask(backend, request(question, { tools: [WEATHER] }));
    expect(reply.finished.reason).toBe(FinishReason.TOOL_CALLS);
    expect(reply.calls).toEqual([{ name: "get_weather", arguments: '{"city": "Ljubljana"}' }]);
    const history = [
      ...question,
      assistant(call("get_weather", '{"city":"Ljubljana"}')),
      toolResult('{"temperature": 23}'),
    ];
    const answer = await ask(backend, request(history, { tools: [WEATHER] }));
    expect(answer.text).toContain("23");
    // The arguments returned in another spelling, yet the prompt has the model's own tokens.
    const { inputTokens = 0, outputTokens = 0 } = reply.finished.usage ?? {};
    expect(answer.cached).toBe(inputTokens + outputTokens);
  });

  test("without parallel calls there is one call", async () => {
    const both = (disableParallelCalls: boolean) =>
      request("What is the weather in Oslo and Madrid?", {
        tools: [WEATHER],
        toolChoice: choose(ToolChoiceMode.AUTO, { disableParallelCalls }),
      });
    expect((await ask(backend, both(false))).calls).toHaveLength(2);
    const one = await ask(backend, both(true));
    expect(one.calls).toEqual([{ name: "get_weather", arguments: '{"city": "Oslo"}' }]);
    expect(one.finished.reason).toBe(FinishReason.TOOL_CALLS);
  });

  test("forbidden tools are not called, although the model sees them", async () => {
    const wanted = request("What is the weather in Ljubljana?", {
      tools: [WEATHER],
      toolChoice: choose(ToolChoiceMode.NONE),
    });
    const reply = await ask(backend, { ...wanted, maxOutputTokens: 100 });
    expect(reply.calls).toEqual([]);
    expect(reply.text).not.toContain("<tool_call>");
    const free = await ask(backend, request("What is the weather in Ljubljana?", { tools: [WEATHER] }));
    expect(reply.finished.usage?.inputTokens).toBe(free.finished.usage?.inputTokens);
  });

  test("an optional call satisfies the schema of a strict tool", async () => {
    const strict = {
      ...tool("get_weather", "Get the weather for a city", {
        type: "object",
        properties: { city: { enum: ["Paris"] }, unit: { const: "kelvin" } },
        required: ["city", "unit"],
        additionalProperties: false,
      }),
      strict: true,
    };
    const reply = await ask(backend, request("What is the weather in Ljubljana?", { tools: [strict] }));
    expect(reply.calls.map((one) => JSON.parse(one.arguments))).toEqual([{ city: "Paris", unit: "kelvin" }]);
    const calm = await ask(backend, request("Who are you?", { tools: [strict] }));
    expect(calm.calls).toEqual([]);
    expect(calm.text).toContain("demonstration");
  });

  test("an invisible token is no substitute for the characters of the schema", async () => {
    const schema = { type: "string", minLength: 30, maxLength: 40 };
    const imStart = 2550;
    const sampling = { temperature: 0, stop: [], logitBias: { [imStart]: 100 } };
    const reply = await ask(backend, request("Hello!", { ...jsonSchema(schema), sampling }));
    const text: unknown = JSON.parse(reply.text);
    expect(typeof text === "string" && [...text].length).toBeGreaterThanOrEqual(30);
  });

  test("a JSON object is one object", async () => {
    const outputConstraint = { kind: { $case: "jsonObject" as const, value: {} } };
    const reply = await ask(
      backend,
      request("Give me a JSON object with color teal and count 8", { outputConstraint }),
    );
    expect(JSON.parse(reply.text)).toEqual({ color: "teal", count: 8 });
    expect(reply.finished.reason).toBe(FinishReason.STOP);
  });

  test("a prefilled answer with a constraint is refused before work starts", async () => {
    const begun = request([user("Hi"), assistant(text("{"))], jsonSchema(PERSON));
    await expect(ask(backend, begun)).rejects.toMatchObject({ reason: "UNSUPPORTED_FEATURE" });
    expect(backend.load().busySlots).toBe(0);
  });
});
