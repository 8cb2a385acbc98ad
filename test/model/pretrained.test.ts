import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, system, text, tool, toolResult, user } from "../support/engine/canonical.ts";
import { ask, request, startBackend } from "../support/engine/demo-engine.ts";
import { noPretrained, PRETRAINED_MODEL } from "../support/engine/pretrained.ts";
import { independentValidator } from "../support/schemas/independent-validator.ts";

const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 150 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const strictly = (schema: object): Partial<GenerateRequest> => ({
  outputConstraint: {
    kind: { $case: "jsonSchema", value: { name: "answer", schemaJson: JSON.stringify(schema), strict: true } },
  },
});

const READ = {
  type: "object",
  properties: {
    path: { type: "string", maxLength: 24 },
    lines: { type: "integer", minimum: 1, maximum: 500 },
    mode: { enum: ["text", "binary"] },
  },
  required: ["path", "mode"],
  additionalProperties: false,
};
const TOOLS = [
  tool("get_weather", "Get the weather for a city", {
    type: "object",
    properties: { city: { type: "string", maxLength: 16 } },
    required: ["city"],
    additionalProperties: false,
  }),
  { ...tool("read_file", "Reads a file of the project", READ), strict: true },
];
const FORCED = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
const WISHES = ["Weather in Oslo?", "Read src/main.ts.", "Is it cold in Paris?", "Show README.md.", "Hello!", "🙂"];

describe.skipIf(noPretrained !== "")("pretrained weights", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ modelPath: PRETRAINED_MODEL, contextTokens: 4096, slots: 2 });
  });
  afterAll(() => backend.close());

  test("an answer stops at a stop string, which is left out", async () => {
    const asked = [system("You are a helpful assistant."), user("What is the capital of France?")];
    const wanted = request(asked, { maxOutputTokens: 24 });
    expect((await ask(backend, wanted)).text).toContain("Paris");
    const sampling = { temperature: 0, stop: [" Paris"], logitBias: {} };
    const stopped = await ask(backend, { ...wanted, sampling });
    expect(stopped.finished.reason).toBe(FinishReason.STOP_SEQUENCE);
    expect(stopped.text).not.toContain("Paris");
  });

  test("a strict schema holds, with the age of the text", async () => {
    const said = request("My name is Ann and I am 31 years old.", { ...strictly(PERSON), maxOutputTokens: 60 });
    const person = JSON.parse((await ask(backend, said)).text);
    expect(independentValidator(PERSON)(person)).toBe(true);
    expect(person).toMatchObject({ age: 31 });
  });

  test("the second turn finds the first in the cache", async () => {
    const head = system(`Be brief. ${"The service speaks three formats. ".repeat(20)}`);
    const first = request([head, user("Name a colour.")], { maxOutputTokens: 12 });
    const { text: said } = await ask(backend, first);
    const turns = [head, user("Name a colour."), assistant(text(said)), user("Another one?")];
    const second = await ask(backend, request(turns, { maxOutputTokens: 12 }));
    expect(second.cached).toBeGreaterThan(120);
    expect(second.text).not.toBe("");
  });

  test("log probabilities are those of the text, each with others in order", async () => {
    const sampling = { temperature: 0, stop: [], logitBias: {}, topLogprobs: 3 };
    const { events, text: said } = await ask(backend, request("Hi!", { sampling, maxOutputTokens: 8 }));
    const logprobs = events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs : []));
    expect(logprobs.map(({ token }) => token).join("")).toBe(said);
    for (const { token, logprob, alternatives } of logprobs) {
      expect(alternatives).toHaveLength(3);
      expect(alternatives[0]?.token).toBe(token);
      expect(alternatives.map((one) => one.logprob)).toEqual(
        alternatives.map((one) => one.logprob).toSorted((a, b) => b - a),
      );
      expect(logprob).toBeLessThanOrEqual(0);
    }
  });

  test("the start notes that the template has no tools", () => {
    expect(backend.startNotes().join("\n")).toContain("has no tools: tools, calls and results are written as text");
  });

  test.each(WISHES)("a forced call has valid arguments: %s", async (wish) => {
    const { calls, finished } = await ask(
      backend,
      request(wish, { tools: TOOLS, toolChoice: FORCED, maxOutputTokens: 120 }),
    );
    expect(finished.reason).toBe(FinishReason.TOOL_CALLS);
    expect(calls).toHaveLength(1);
    const [called] = calls;
    const schema = TOOLS.find(({ name }) => name === called?.name)?.parametersJsonSchema ?? "false";
    expect(independentValidator(JSON.parse(schema))(JSON.parse(called?.arguments ?? ""))).toBe(true);
  });

  test("a call and its result are found in the cache", async () => {
    const asked = [user("Weather in Oslo?")];
    const { calls } = await ask(backend, request(asked, { tools: TOOLS, toolChoice: FORCED, maxOutputTokens: 60 }));
    const [called] = calls;
    const turn = assistant(call(called?.name ?? "", called?.arguments ?? ""));
    const next = request([...asked, turn, toolResult("3 degrees, snow")], { tools: TOOLS, maxOutputTokens: 24 });
    const { text: said, cached } = await ask(backend, next);
    expect(said).not.toBe("");
    expect(cached).toBeGreaterThan(150);
  });
});
