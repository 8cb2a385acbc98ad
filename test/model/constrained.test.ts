import { beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import {
  FinishReason,
  type GenerateRequest,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, text, tool, toolResult, user } from "../support/engine/canonical.ts";
import { ask, missing, never, OPTIONS, request, sharedBackend } from "../support/engine/demo-engine.ts";

const WEATHER = tool("get_weather", "Get the weather for a city");
const LEVEL = tool("set_level", "Set a level", {
  type: "object",
  properties: { level: { type: "integer", minimum: 1, maximum: 5 }, mode: { enum: ["soft", "hard"] } },
  required: ["level", "mode"],
  additionalProperties: false,
});
const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 150 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const SEEDS = [1, 2, 3, 4, 5];

const choose = (mode: ToolChoiceMode, more: Partial<ToolChoice> = {}): ToolChoice => ({
  mode,
  name: "",
  disableParallelCalls: false,
  allowedNames: [],
  ...more,
});
const hot = (seed: number) => ({ temperature: 1, seed, stop: [], logitBias: {} });
const jsonSchema = (schema: object): Pick<GenerateRequest, "outputConstraint"> => ({
  outputConstraint: {
    kind: { $case: "jsonSchema", value: { name: "answer", schemaJson: JSON.stringify(schema), strict: true } },
  },
});

async function tokensOf(text: string): Promise<readonly number[]> {
  const runtime = await loadRuntime({ ...OPTIONS, slots: 1 }, never());
  try {
    return runtime.model.tokenize(text, true);
  } finally {
    await runtime.close();
  }
}

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

  describe("a mandatory call is made, at temperature 1 too, and satisfies the schema", () => {
    const cases: readonly [name: string, more: Partial<GenerateRequest>][] = [
      ["required", { toolChoice: choose(ToolChoiceMode.REQUIRED, { allowedNames: ["set_level"] }) }],
      ["named", { toolChoice: choose(ToolChoiceMode.NAMED, { name: "set_level" }) }],
    ];
    test.each(cases)("%s", async (_name, more) => {
      for (const seed of SEEDS) {
        const reply = await ask(backend, request("Hello!", { tools: [WEATHER, LEVEL], sampling: hot(seed), ...more }));
        expect(reply.finished.reason).toBe(FinishReason.TOOL_CALLS);
        expect(reply.text).toBe("");
        for (const { name, arguments: json } of reply.calls) {
          expect(name).toBe("set_level");
          const { level, mode, ...rest } = JSON.parse(json);
          expect(rest).toEqual({});
          expect([1, 2, 3, 4, 5]).toContain(level);
          expect(["soft", "hard"]).toContain(mode);
        }
        expect(reply.reasoning === "").toBe(more.reasoning === undefined);
      }
    });
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

  describe("an answer with a schema satisfies it, and ends with the value", () => {
    const cases: readonly [name: string, more: Partial<GenerateRequest>][] = [
      ["plain", {}],
      ["with tools that could be called", { tools: [WEATHER] }],
      ["after reasoning", { reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens: 40 } }],
    ];
    test.each(cases)("%s", async (_name, more) => {
      for (const seed of SEEDS) {
        const wanted = request("Barnaby is 44 years old.", { ...jsonSchema(PERSON), sampling: hot(seed), ...more });
        const reply = await ask(backend, wanted);
        expect(reply.finished.reason).toBe(reply.calls.length > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP);
        if (reply.calls.length > 0) continue;
        const { name, age, ...rest } = JSON.parse(reply.text);
        expect([typeof name, Number.isInteger(age), rest]).toEqual(["string", true, {}]);
        expect(reply.text).toBe(reply.text.trim());
      }
    });
  });

  test("an invisible token is no substitute for the characters of the schema", async () => {
    const schema = { type: "string", minLength: 30, maxLength: 40 };
    const [hidden] = await tokensOf("<|im_start|>");
    const sampling = { temperature: 0, stop: [], logitBias: { [String(hidden)]: 100 } };
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
