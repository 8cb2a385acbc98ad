import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OpenAiCompatibleBackend } from "../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import {
  FinishReason,
  type GenerateRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { startNode } from "../support/engine/start-node.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { generateRequest, textMessage, toolOf } from "../support/requests/generate-request.ts";

/*
 * Against a real counterpart that somebody has to start: the root of a llama-server that runs the demonstration model
 * (`llama-server -m demo.gguf --jinja --metrics`). The vitest project exists only when the variable names one.
 */
const baseUrl = process.env.SVC_TEST_LLAMA_SERVER ?? "";

describe("a node in front of a real llama-server", () => {
  const backend = new OpenAiCompatibleBackend({
    nodeId: "n1",
    models: ["svc-qwen"],
    baseUrl,
    dialect: "llama-server",
    profile: loadProfile("hermes-thinking"),
    slots: 4,
    startTimeoutMs: 20_000,
    silenceTimeoutMs: 20_000,
    stepTimeoutMs: 20_000,
    countTimeoutMs: 20_000,
    loadIntervalMs: 60_000,
    images: false,
    priorities: false,
    sharedCache: true,
  });
  const stops: (() => unknown)[] = [];
  let client: NodeClient;

  beforeAll(async () => {
    await backend.start(new AbortController().signal);
    const node = await startNode(backend);
    client = new NodeClient(node.address);
    stops.push(
      () => backend.close(),
      node.stop,
      () => client.close(),
    );
  });
  afterAll(async () => {
    for (const stop of stops.reverse()) await stop();
  });

  async function ask(fields: Partial<GenerateRequest>) {
    const asked = { sampling: { temperature: 0, stop: [], logitBias: {} }, maxOutputTokens: 300, ...fields };
    const reading = client.generate(generateRequest(asked));
    expect(await reading.ended).toMatchObject({ code: 0 });
    expect(reading.legal()).toBe(true);
    expect(reading.finished()).toBe(true);
    return answerOf(reading.events);
  }

  const user = (text: string) => [textMessage(Role.USER, text)];

  test("streams reasoning and text, and counts the prompt as the engine does", async () => {
    const messages = user("What is 2+3?");
    const reasoning = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED };
    const { started, blocks, finished } = await ask({ messages, reasoning });
    expect(blocks.map(({ kind }) => kind)).toEqual(["reasoning", "text"]);
    expect(finished?.reason).toBe(FinishReason.STOP);
    expect(finished?.usage?.reasoningTokens).toBeGreaterThan(0);
    const counted = await client.countTokens({
      model: "svc-qwen",
      messages,
      tools: [],
      toolChoice: undefined,
      tenant: "",
      reasoning,
    });
    expect(started?.inputTokens).toBe(counted.inputTokens);
    expect(finished?.usage?.inputTokens).toBe(counted.inputTokens);
  });

  test("measures what the prefix cache held", async () => {
    const messages = user("Tell me about the sea and about the ships that sail on it.");
    await ask({ messages });
    const { finished } = await ask({ messages });
    expect(finished?.usage?.cachedInputTokens).toBeGreaterThan(0);
  });

  test("calls a tool that it has to call", async () => {
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const toolChoice = { mode: ToolChoiceMode.NAMED, name: "weather", disableParallelCalls: false, allowedNames: [] };
    const { blocks, finished } = await ask({
      messages: user("What is the weather in Rome?"),
      tools: [toolOf("weather", schema)],
      toolChoice,
    });
    expect(blocks).toMatchObject([{ kind: "toolCall", name: "weather", complete: true }]);
    expect(JSON.parse(blocks[0]?.text ?? "")).toHaveProperty("city");
    expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
  });

  test("stops at a stop string, and says which it was", async () => {
    const { blocks, finished } = await ask({
      messages: user("Tell me a long story."),
      sampling: { temperature: 0, stop: [" "], logitBias: {} },
    });
    expect(blocks.map(({ text }) => text).join("")).toMatch(/^\S+$/);
    expect(finished).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: " " });
  });

  test("ends for length, and refuses a prompt that is too long", async () => {
    const { finished } = await ask({ messages: user("Tell me a long story."), maxOutputTokens: 3 });
    expect(finished).toMatchObject({ reason: FinishReason.MAX_OUTPUT_TOKENS, usage: { outputTokens: 3 } });
    const { info } = await client.generate(generateRequest({ messages: user("word ".repeat(20_000)) })).ended;
    expect(info?.reason).toBe("CONTEXT_WINDOW_EXCEEDED");
    expect(Number(info?.metadata.input_tokens)).toBeGreaterThan(Number(info?.metadata.context_window));
  });

  test("leaves its slot when the caller does", async () => {
    const busy = async () => {
      const page = await (await fetch(`${baseUrl}/metrics`)).text();
      return Number(/^llamacpp:requests_processing (\d+)/m.exec(page)?.[1]);
    };
    const messages = user("Tell me a long story.");
    const reading = client.generate(generateRequest({ messages, maxOutputTokens: 2_000 }));
    await reading.seen("blockDelta");
    reading.call.cancel();
    expect((await reading.ended).code).toBe(1);
    await expect.poll(busy, { timeout: 20_000 }).toBe(0);
  });

  test("keeps to a schema", async () => {
    const schemaJson = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}';
    const outputConstraint = { kind: { $case: "jsonSchema", value: { name: "n", schemaJson, strict: true } } } as const;
    const { blocks } = await ask({ messages: user("How many legs has a cat?"), outputConstraint });
    expect(Number.isInteger(JSON.parse(blocks[0]?.text ?? "").n)).toBe(true);
  });
});
