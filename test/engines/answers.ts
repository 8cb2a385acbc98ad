import { describe, expect, test } from "vitest";
import {
  FinishReason,
  type GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { ModelState } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { assistant, text, user } from "../support/engine/canonical.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { MODEL, type Rig } from "./rig.ts";

/** Keeps the model from ending: <|endoftext|> and <|im_end|>. */
const NO_END = { 2549: -100, 2551: -100 };

const THINK = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED };
const COUNT = "Count from 1 to 12.";
const NUMBERS = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12";
const STORY = "Tell me about the sea and about the ships that sail on it. ";

const WEATHER = {
  name: "get_weather",
  description: "Returns the weather of a city.",
  parametersJsonSchema:
    '{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city","unit"],"additionalProperties":false}',
  strict: true,
  deferred: false,
};
const ASKED = { messages: [user("What is the weather in Paris?")], tools: [WEATHER] };
const MUST = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false, allowedNames: [] };
const PERSON =
  '{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":5,"maximum":14}},"required":["name","age"],"additionalProperties":false}';
const FIXED = { kind: { $case: "jsonSchema", value: { name: "p", schemaJson: PERSON, strict: true } } } as const;

export const CUT: Readonly<Record<string, Partial<GenerateRequest>>> = {
  text: { messages: [user(COUNT)] },
  reasoning: { messages: [user("What is 2+3?")], reasoning: THINK },
  "a strict call": ASKED,
  "a demanded call": { ...ASKED, toolChoice: MUST },
  "a demanded call behind reasoning": { ...ASKED, toolChoice: MUST, reasoning: THINK },
  "an answer by a schema": { messages: [user("Who is Ann?")], outputConstraint: FIXED, maxOutputTokens: 60 },
};

export function answersBeside(rig: Rig): void {
  describe("answers", () => {
    test("are the text that the weights give elsewhere", async () => {
      const { blocks, finished } = await rig.ask({ messages: [user(COUNT)] });
      expect(blocks).toEqual([{ kind: "text", text: NUMBERS, complete: true }]);
      expect(finished?.reason).toBe(FinishReason.STOP);
    });

    test("have reasoning and text without the white space of the template between them", async () => {
      const messages = [user("What is 2+3?")];
      const { started, blocks, finished } = await rig.ask({ messages, reasoning: THINK });
      expect(blocks.map(({ kind }) => kind)).toEqual(["reasoning", "text"]);
      for (const block of blocks) expect(block.text).toBe(block.text.trim());
      expect(finished?.usage?.reasoningTokens).toBeGreaterThan(0);
      const counted = await rig.count({ messages, reasoning: THINK });
      expect(started?.inputTokens).toBe(counted);
      expect(finished?.usage?.inputTokens).toBe(counted);
    });

    test("have their full length where they may not end before", async () => {
      const sampling = { temperature: 0, stop: [], logitBias: {}, minOutputTokens: 60 };
      const { finished } = await rig.ask({ messages: [user(COUNT)], maxOutputTokens: 60, sampling });
      expect([finished?.reason, finished?.usage?.outputTokens]).toEqual([FinishReason.MAX_OUTPUT_TOKENS, 60]);
    });

    test("go on with a text that was begun", async () => {
      const begun = "1, 2, 3,";
      const messages = [user(COUNT), assistant(text(begun))];
      const { blocks } = await rig.ask({ messages });
      expect(`${begun}${blocks.map((block) => block.text).join("")}`).toBe(NUMBERS);
    });

    test("report cached tokens", async () => {
      const messages = [user(STORY.repeat(20))];
      await rig.ask({ messages, maxOutputTokens: 4 });
      const { finished } = await rig.ask({ messages, maxOutputTokens: 4 });
      const { inputTokens = 0, cachedInputTokens = 0 } = finished?.usage ?? {};
      // All but the rest of the last block.
      expect(cachedInputTokens).toBeGreaterThan(inputTokens - 64);
      expect(cachedInputTokens).toBeLessThan(inputTokens);
    });

    test("have the log probabilities of their tokens", async () => {
      const sampling = { temperature: 0, stop: [], logitBias: {}, topLogprobs: 3 };
      const reading = rig.begin({ messages: [user(COUNT)], sampling });
      expect((await reading.ended).code).toBe(0);
      const all = reading.events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs : []));
      expect(Buffer.concat(all.map(({ tokenBytes }) => tokenBytes)).toString()).toBe(NUMBERS);
      for (const { logprob, alternatives } of all) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(alternatives).toHaveLength(3);
        expect(alternatives.some((other) => other.logprob > logprob)).toBe(false);
      }
    });

    test("of a prompt that is too long are refused", async () => {
      const { info } = await rig.begin({ messages: [user("word ".repeat(6_000))] }).ended;
      expect(info?.reason).toBe("CONTEXT_WINDOW_EXCEEDED");
      expect(Number(info?.metadata.input_tokens)).toBeGreaterThan(Number(info?.metadata.context_window));
    });

    test("end in the engine when their caller leaves", async () => {
      const messages = [user("Count from 1 to 75")];
      const sampling = { temperature: 0, stop: [], logitBias: NO_END };
      const reading = rig.client.generate(
        generateRequest({ model: MODEL, messages, sampling, maxOutputTokens: 3_000 }),
      );
      await reading.seen("blockDelta");
      reading.call.cancel();
      expect((await reading.ended).code).toBe(1);
      await expect.poll(() => rig.running(), { timeout: 20_000 }).toBe(0);
    });
  });
}

export function crashBeside(rig: Rig): void {
  test("an engine that is killed costs its answers, and serves again when it is back", async () => {
    const sampling = { temperature: 0, stop: [], logitBias: NO_END };
    const reading = rig.begin({ messages: [user("Count from 1 to 75")], maxOutputTokens: 3_000, sampling });
    await reading.seen("blockDelta");
    rig.engine.kill();
    const { code, info } = await reading.ended;
    expect({ code, reason: info?.reason }).toEqual({ code: 14, reason: "ENGINE_STREAM_TRUNCATED" });
    expect(reading.finished()).toBe(false);
    const refused = await rig.begin({ messages: [user(COUNT)] }).ended;
    expect(refused.info?.reason).toBe("ENGINE_DOWN");
    await rig.engine.untilUp();
    // The node may have left service meanwhile.
    const state = async () => (await rig.client.describe()).models[0]?.state;
    await expect.poll(state, { timeout: 60_000 }).toBe(ModelState.READY);
    const { blocks } = await rig.ask({ messages: [user(COUNT)] });
    expect(blocks.map((block) => block.text)).toEqual([NUMBERS]);
  }, 480_000);
}
