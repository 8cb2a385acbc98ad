import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import {
  type Event,
  FinishReason,
  type GenerateRequest,
  ReasoningMode,
  type Usage,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { missing, never, OPTIONS } from "../support/engine/demo-engine.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { randomCalls } from "../support/engine/random-calls.ts";
import { type RunningNode, startNode } from "../support/engine/start-node.ts";
import { workHere } from "../support/engine/work-here.ts";
import { generateRequest, toolOf } from "../support/requests/generate-request.ts";
import { independentValidator } from "../support/schemas/independent-validator.ts";
import { randomSchema } from "../support/schemas/random-schema.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { sizeOf } from "../support/size.ts";

/* The in-process engine as a node: the demonstration model behind the real server and gRPC, on four slots. */

const SLOTS = 4;
const REQUESTS = sizeOf({ quick: 100, promised: 200 });
const RANDOM_SCHEMAS = sizeOf({ quick: 12, promised: 24 });
const OK = 0;

const WEATHER = toolOf("get_weather", {
  type: "object",
  properties: { city: { type: "string", maxLength: 12 } },
  required: ["city"],
});
const ANSWER = { type: "object", properties: { n: { type: "integer", minimum: 1, maximum: 99 } }, required: ["n"] };

function jsonSchema(schema: object): NonNullable<GenerateRequest["outputConstraint"]> {
  const value = { name: "answer", schemaJson: JSON.stringify(schema), strict: true };
  return { kind: { $case: "jsonSchema", value } };
}

function sampling(fields: object): NonNullable<GenerateRequest["sampling"]> {
  return { stop: [], logitBias: {}, ...fields };
}

function textOf(events: readonly Event[]): string {
  return events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? [kind.value.text] : [])).join("");
}

function finishedOf(events: readonly Event[]): { readonly reason: FinishReason; readonly usage: Usage } {
  const last = events.at(-1)?.kind;
  if (last?.$case !== "finished" || !last.value.usage) throw new Error("the stream has no end");
  return { reason: last.value.reason, usage: last.value.usage };
}

describe.skipIf(missing !== "")("the node", () => {
  let backend: LlamaBackend;
  let node: RunningNode;
  let client: NodeClient;
  beforeAll(async () => {
    const models = ["svc-qwen"];
    backend = new LlamaBackend(
      { ...OPTIONS, models, slots: SLOTS, contextTokens: 4096, queueLength: 2 * REQUESTS },
      workHere,
    );
    await backend.start(never());
    node = await startNode(backend, { maxStepAgeMs: 30_000 });
    client = new NodeClient(node.address);
  });
  afterAll(async () => {
    client.close();
    await node.stop();
    await backend.close();
  });

  const idle = () =>
    expect.poll(() => backend.load(), { timeout: 10_000 }).toMatchObject({ busySlots: 0, waiting: 0, kvTokensUsed: 0 });

  test(`${REQUESTS} concurrent random requests have legal streams and free every slot`, async () => {
    await randomCalls(client, {
      ...{ requests: REQUESTS, atOnce: REQUESTS, deadlineMs: 400 },
      request(random, number, isSlow) {
        const mode = random.pick([ToolChoiceMode.AUTO, ToolChoiceMode.REQUIRED, ToolChoiceMode.NONE]);
        const form = random.pick<Partial<GenerateRequest>>([
          {},
          {},
          { tools: [WEATHER], toolChoice: { mode, name: "", disableParallelCalls: true, allowedNames: [] } },
          { tools: [{ ...WEATHER, strict: true }] },
          { outputConstraint: jsonSchema(ANSWER) },
          { outputConstraint: { kind: { $case: "jsonObject", value: {} } } },
          { reasoning: { mode: ReasoningMode.ENABLED, effort: 0, budgetTokens: 1 + random.below(20) } },
        ]);
        const question = random.pick(["Count from 1 to 40.", "What is the weather in Oslo?", "Who are you exactly?"]);
        const stop = random.below(4) === 0 ? [" 7"] : [];
        // Top log probabilities make the messages of slow readers large.
        const drawn = { temperature: random.below(2), seed: number, stop, ...(isSlow && { topLogprobs: 50 }) };
        return generateRequest(
          {
            ...{ ...form, requestId: `r${number}`, tenant: `t${random.below(3)}`, priority: random.below(3) - 1 },
            ...{ sampling: sampling(drawn), maxOutputTokens: 1 + random.below(60) },
          },
          `${"one two three ".repeat(random.below(8) ** 2)}${question}`,
        );
      },
    });
    await idle();
    const again = Array.from({ length: SLOTS }, () => client.generate(generateRequest({}, "Count from 1 to 40.")));
    await Promise.all(again.map((reading) => reading.seen("blockDelta")));
    for (const reading of again) expect((await reading.ended).code).toBe(OK);
    await idle();
  });

  const answerTo = async (schema: object, seed: number, maxOutputTokens: number) => {
    const plain = sampling({ temperature: 1, topK: 0, topP: 1, minP: 0, seed });
    const fields = { outputConstraint: jsonSchema(schema), sampling: plain, maxOutputTokens };
    const reading = client.generate(generateRequest(fields, "Give me a JSON object with a color and a count."));
    expect((await reading.ended).code).toBe(OK);
    const isWhole = finishedOf(reading.events).reason === FinishReason.STOP;
    return { text: textOf(reading.events), isWhole };
  };

  test("the node answers to random schemas satisfy their schemas", async () => {
    const asked = Array.from({ length: RANDOM_SCHEMAS }, (_, seed) => ({
      seed,
      schema: randomSchema(new SeededRandom(1000 + seed)),
    }));
    const answers = await Promise.all(
      asked.map(async ({ seed, schema }) => ({ seed, schema, ...(await answerTo(schema, seed, 300)) })),
    );
    // Truncated answers are incomplete and need not satisfy the schema.
    const whole = answers.filter(({ isWhole }) => isWhole);
    const wrong = whole.filter(({ schema, text }) => !independentValidator(schema)(JSON.parse(text)));
    expect(wrong.map(({ seed, text }) => `${seed}: ${text}`)).toEqual([]);
    expect(whole.length).toBeGreaterThan((RANDOM_SCHEMAS * 2) / 3);
    process.stdout.write(`${whole.length} whole answers of ${RANDOM_SCHEMAS} satisfy their random schemas\n`);
  }, 60_000);
});
