import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import {
  FinishReason,
  type GenerateRequest,
  ReasoningMode,
  type Sampling,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, text, tool, user } from "../support/engine/canonical.ts";
import {
  ask,
  missing,
  RANDOM_MODEL,
  type Reply,
  request,
  sharedBackend,
  startBackend,
} from "../support/engine/demo-engine.ts";

const CITY = { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] };
const weather = (strict: boolean) => ({
  tools: [{ ...tool("get_weather", "Get the weather for a city", CITY), strict }],
});
const QUESTION = "What is the weather in Ljubljana?";
const reasoning = (budgetTokens?: number) => ({
  reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens } as const,
});
const sampling = (fields: object) => ({ sampling: { temperature: 0, stop: [], logitBias: {}, ...fields } });

/** Returns the tokens of all log probabilities. */
const logprobTokens = ({ events }: Reply) =>
  events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs.map(({ token }) => token) : []));

describe.skipIf(missing !== "")("combined features of one request", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await sharedBackend();
  });
  const reply = (question: string, more: Partial<GenerateRequest>) => ask(backend, request(question, more));

  test.each([false, true])("log probabilities and tools, strict %s: text has them, calls have none", async (strict) => {
    const call = await reply(QUESTION, { ...weather(strict), ...sampling({ topLogprobs: 1 }) });
    expect(call.calls).toEqual([{ name: "get_weather", arguments: '{"city": "Ljubljana"}' }]);
    expect(logprobTokens(call)).toEqual([]);
    const spoken = await reply("Who are you?", { ...weather(strict), ...sampling({ topLogprobs: 1 }) });
    expect(logprobTokens(spoken).join("")).toBe(spoken.text);
  });

  test("a strict tool does not change text and reasoning beside it", async () => {
    for (const question of ["Who are you?", "Count from 1 to 12."]) {
      const free = await reply(question, { ...weather(false), ...reasoning() });
      const strict = await reply(question, { ...weather(true), ...reasoning() });
      expect([strict.reasoning, strict.text]).toEqual([free.reasoning, free.text]);
    }
  });

  test.each([1, 5, 1000])("a strict call after reasoning of at most %i tokens", async (budgetTokens) => {
    const called = await reply(QUESTION, { ...weather(true), ...reasoning(budgetTokens) });
    expect(called.calls).toEqual([{ name: "get_weather", arguments: '{"city": "Ljubljana"}' }]);
    expect(called.reasoning).not.toBe("");
    expect(called.finished.reason).toBe(FinishReason.TOOL_CALLS);
    const toolChoice = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
    const forced = await reply("Hello!", { ...weather(true), ...reasoning(budgetTokens), toolChoice });
    expect(forced.calls.length).toBeGreaterThan(0);
    expect(forced.text).toBe("");
  });

  test("a stop string counts in visible text only: not in reasoning or arguments", async () => {
    const thought = await reply("Who are you exactly?", reasoning());
    const word = thought.reasoning.split(" ").find((each) => each.length > 3 && !thought.text.includes(each)) ?? "";
    expect(word).not.toBe("");
    const same = await reply("Who are you exactly?", { ...reasoning(), ...sampling({ stop: [word] }) });
    expect([same.reasoning, same.text]).toEqual([thought.reasoning, thought.text]);
    const called = await reply(QUESTION, { ...weather(true), ...sampling({ stop: ["Ljub", '"city"', "tool_call"] }) });
    expect(called.finished.reason).toBe(FinishReason.TOOL_CALLS);
    const stopped = await reply("Count from 1 to 12.", { ...weather(true), ...sampling({ stop: [" 7"] }) });
    expect([stopped.finished.reason, stopped.text]).toEqual([FinishReason.STOP_SEQUENCE, "1, 2, 3, 4, 5, 6,"]);
  });

  test("a prefilled answer continues as text, despite reasoning and strict tools", async () => {
    const begun = [user("Count from 1 to 12."), assistant(text("1, 2, 3, 4, 5,"))];
    const gone = await ask(backend, request(begun, { ...reasoning(), ...weather(true) }));
    expect([gone.reasoning, gone.text]).toEqual(["", " 6, 7, 8, 9, 10, 11, 12"]);
  });
});

const POEM = "Write me a short poem about rain.";

describe.skipIf(missing !== "")("sampling parameters", () => {
  /** Random weights: small differences between tokens, so that a penalty has an effect. */
  let undecided: LlamaBackend;
  beforeAll(async () => {
    undecided = await startBackend({ modelPath: RANDOM_MODEL });
  });
  afterAll(() => undecided.close());

  /** Returns the share of repeated tokens. */
  const repetition = async (fields: Partial<Sampling>) => {
    const sampling = { temperature: 0, topLogprobs: 0, stop: [], logitBias: {}, topK: 0, topP: 1, minP: 0, ...fields };
    const reply = await ask(undecided, request(POEM, { sampling, maxOutputTokens: 48 }));
    const tokens = logprobTokens(reply);
    return 1 - new Set(tokens).size / tokens.length;
  };

  test.each([{ frequencyPenalty: 2 }, { presencePenalty: 2 }, { repetitionPenalty: 5 }])(
    "a penalty reduces repetition: %j",
    async (penalty) => {
      expect(await repetition(penalty)).toBeLessThan(await repetition({}));
    },
  );
});
