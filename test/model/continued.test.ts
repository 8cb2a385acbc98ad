import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import {
  type Continuation,
  type Event,
  FinishReason,
  type GenerateRequest,
  type GenerateResponse,
  ReasoningMode,
  type Sampling,
  type TokenLogprob,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { tool } from "../support/engine/canonical.ts";
import { missing, never, RANDOM_MODEL, request, sharedBackend, startBackend } from "../support/engine/demo-engine.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { sizeOf } from "../support/size.ts";

/** The number of cuts per answer, evenly spread, with the first and last positions. */
const CUTS = sizeOf({ quick: 8, promised: Number.POSITIVE_INFINITY });

const WEATHER = tool("get_weather", "Get the weather for a city");
const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 150 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const QUOTED = {
  type: "object",
  properties: { line: { type: "string", pattern: '^"\\\\\\n[a-z]{3}é🚀$' } },
  required: ["line"],
  additionalProperties: false,
};

const sampling = (fields: Partial<Sampling> = {}): Sampling => ({ temperature: 0, stop: [], logitBias: {}, ...fields });
const hot = (fields: Partial<Sampling> = {}) =>
  sampling({ temperature: 1, seed: 5, topK: 0, topP: 1, minP: 0, ...fields });
const strictly = (schema: object): Partial<GenerateRequest> => ({
  outputConstraint: {
    kind: { $case: "jsonSchema", value: { name: "answer", schemaJson: JSON.stringify(schema), strict: true } },
  },
});
const thinking = (budgetTokens?: number): Partial<GenerateRequest> => ({
  reasoning: { mode: ReasoningMode.ENABLED, effort: 0, ...(budgetTokens === undefined ? {} : { budgetTokens }) },
});
const called = {
  tools: [WEATHER],
  toolChoice: { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: true, allowedNames: [] },
};

type Weights = "demo" | "random";

/** The answers to cut: name, weights, and request. */
const ANSWERS: readonly [name: string, weights: Weights, wanted: GenerateRequest][] = [
  ["text", "demo", request("Count from 1 to 12.")],
  ["characters of several tokens", "demo", request("Repeat: 你好")],
  ["a stop string", "demo", request("Count from 1 to 12.", { sampling: sampling({ stop: [", 10, 1", "11"] }) })],
  ["a limit", "demo", request("Count from 1 to 12.", { maxOutputTokens: 9 })],
  ["a call that the model chose", "demo", request("What is the weather in Ljubljana?", { tools: [WEATHER] })],
  ["a mandatory call", "demo", request("Hello.", called)],
  ["a strict schema", "demo", request("Give me a person.", strictly(PERSON))],
  ["escapes in a strict schema", "demo", request("Say it.", strictly(QUOTED))],
  ["reasoning", "demo", request("What is 3 plus 4?", thinking())],
  ["reasoning that the budget ends", "demo", request("What is 3 plus 4?", thinking(3))],
  ["reasoning of a strict schema", "demo", request("Give me a person.", { ...strictly(PERSON), ...thinking(2) })],
  [
    "penalties",
    "random",
    request("Go.", { sampling: sampling({ frequencyPenalty: 1.5, presencePenalty: 1 }), maxOutputTokens: 40 }),
  ],
  ["a seed", "random", request("Go.", { sampling: hot(), maxOutputTokens: 40 })],
  [
    "a seed with penalties and a bias",
    "random",
    request("Go.", { sampling: hot({ repetitionPenalty: 2, logitBias: { 300: 4 } }), maxOutputTokens: 40 }),
  ],
  ["a seed with a strict schema", "demo", request("Give me a person.", { ...strictly(PERSON), sampling: hot() })],
  [
    "log probabilities",
    "demo",
    request("Count from 1 to 12.", { sampling: sampling({ topLogprobs: 2, stop: [", 10, 12"] }) }),
  ],
  [
    "log probabilities in reasoning and a strict schema",
    "demo",
    request("Give me a person.", { ...strictly(PERSON), ...thinking(6), sampling: sampling({ topLogprobs: 1 }) }),
  ],
];

type Produced = {
  readonly steps: readonly GenerateResponse[];
  readonly events: readonly Event[];
  readonly tokens: readonly number[];
};

async function produced(backend: LlamaBackend, wanted: GenerateRequest): Promise<Produced> {
  const steps: GenerateResponse[] = [];
  for await (const step of backend.generate(wanted, never())) steps.push(step);
  return { steps, events: steps.flatMap(({ events }) => events), tokens: steps.flatMap(({ tokens }) => tokens) };
}

const logprobsOf = (events: readonly Event[]): readonly TokenLogprob[] =>
  events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.logprobs : []));

/** Returns the events that the caller received when its node was lost after `count` tokens. */
function received({ steps }: Produced, count: number): readonly Event[] {
  const events: Event[] = [];
  let tokens = 0;
  for (const step of steps) {
    tokens += step.tokens.length;
    if (tokens > count) break;
    events.push(...step.events);
  }
  return events;
}

function continuation(whole: Produced, count: number): Continuation {
  const { started } = answerOf(whole.events);
  const callIds = answerOf(received(whole, count)).blocks.flatMap(({ id }) => (id === undefined ? [] : [id]));
  const promptDigest = started?.promptDigest;
  const modelRevision = started?.modelRevision ?? "";
  const digest = promptDigest === undefined ? {} : { promptDigest };
  return { modelRevision, ...digest, tokens: whole.tokens.slice(0, count), callIds };
}

function cutsOf({ length }: readonly number[]): readonly number[] {
  const every = Math.max(1, length / CUTS);
  const places = Array.from({ length: Math.ceil(length / every) }, (_, at) => Math.floor(at * every));
  return [...new Set([...places, length - 1, length])].filter((cut) => cut >= 0);
}

describe.skipIf(missing !== "")("an answer of another build, whose template has another rule for tools", () => {
  let other: LlamaBackend;
  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-template-"));
    const templatePath = join(folder, "chat.jinja");
    const template = readFileSync(join(import.meta.dirname, "../../engine/demo-model/template.jinja"), "utf8");
    writeFileSync(templatePath, template.replace("# Tools", "# The tools"));
    other = await startBackend({ templatePath });
    rmSync(folder, { recursive: true });
    return () => other.close();
  });

  test("an answer of a build with another rule for tools is continued where its prompt does not use the rule, wherever it is cut", async () => {
    const first = await sharedBackend();
    const wanted = request("Count from 1 to 12.", { resumable: true });
    const whole = await produced(first, wanted);
    const { started } = answerOf(whole.events);
    const cuts = cutsOf(whole.tokens);
    expect(cuts.length).toBeGreaterThanOrEqual(8);
    for (const cut of cuts) {
      const rest = await produced(other, { ...wanted, continuation: continuation(whole, cut) });
      expect(rest.tokens, `cut at ${cut}`).toEqual(whole.tokens);
      const again = answerOf(rest.events);
      expect(again.blocks).toEqual(answerOf(whole.events).blocks);
      expect(again.started?.promptDigest).toBe(started?.promptDigest);
      expect(again.started?.modelRevision).not.toBe(started?.modelRevision);
    }
  });

  test("an answer of a build with another rule for tools is refused where its prompt does, and where no digest says that it does not", async () => {
    const first = await sharedBackend();
    const mismatch = { reason: "REVISION_MISMATCH" };
    const called = request("What is the weather in Ljubljana?", { resumable: true, tools: [WEATHER] });
    const whole = await produced(first, called);
    const begun = continuation(whole, 3);
    await expect(produced(other, { ...called, continuation: begun })).rejects.toMatchObject(mismatch);
    const plain = request("Count from 1 to 12.", { resumable: true });
    const { promptDigest: _, ...older } = continuation(await produced(first, plain), 3);
    await expect(produced(other, { ...plain, continuation: older })).rejects.toMatchObject(mismatch);
  });
});

describe.skipIf(missing !== "")("a continued answer", () => {
  let demo: LlamaBackend;
  let random: LlamaBackend;
  beforeAll(async () => {
    demo = await sharedBackend();
    random = await startBackend({ modelPath: RANDOM_MODEL });
    return () => random.close();
  });
  const engineOf = (weights: Weights) => ({ demo, random })[weights];

  test.each(ANSWERS)(
    "a continued answer equals the undisturbed one, wherever it is cut: %s",
    async (_name, weights, wanted) => {
      const backend = engineOf(weights);
      const whole = await produced(backend, wanted);
      const answer = answerOf(whole.events);
      expect(whole.tokens.length).toBe(answer.finished?.usage?.outputTokens);
      expect(whole.tokens.length).toBeGreaterThan(4);
      for (const cut of cutsOf(whole.tokens)) {
        const rest = await produced(backend, { ...wanted, continuation: continuation(whole, cut) });
        const again = answerOf(rest.events);
        expect(rest.events[0]?.kind?.$case).toBe("started");
        const ids = (blocks: typeof answer.blocks) =>
          blocks.map(({ id }, at) => (cut < whole.tokens.length && id ? at : id));
        expect(
          again.blocks.map((block) => ({ ...block, id: "" })),
          `cut at ${cut}`,
        ).toEqual(answer.blocks.map((block) => ({ ...block, id: "" })));
        expect(ids(again.blocks)).toEqual(ids(answer.blocks));
        expect(rest.tokens, `cut at ${cut}`).toEqual(whole.tokens);
        const { reason, matchedStop, usage } = again.finished ?? {};
        expect([reason, matchedStop]).toEqual([answer.finished?.reason, answer.finished?.matchedStop]);
        expect({ ...usage, cachedInputTokens: 0, cacheWriteTokens: 0 }).toEqual({
          ...answer.finished?.usage,
          cachedInputTokens: 0,
          cacheWriteTokens: 0,
        });
        expect(usage?.cachedInputTokens).toBeLessThanOrEqual(usage?.inputTokens ?? 0);
        const owed = logprobsOf(whole.events).slice(logprobsOf(received(whole, cut)).length);
        const given = logprobsOf(rest.events);
        expect(
          given.map(({ token }) => token),
          `cut at ${cut}`,
        ).toEqual(owed.map(({ token }) => token));
        for (const [at, { logprob }] of given.entries()) expect(logprob).toBeCloseTo(owed[at]?.logprob ?? 1, 2);
      }
    },
  );

  test("a continued answer finds its prompt and tokens in the cache, and counts only the prompt", async () => {
    const wanted = request("Count from 1 to 12.", { tenant: "cached" });
    const whole = await produced(demo, wanted);
    const rest = await produced(demo, { ...wanted, continuation: continuation(whole, 20) });
    const { started, finished } = answerOf(rest.events);
    expect(started).toMatchObject({ inputTokens: 17, cachedInputTokens: 17 });
    expect(finished?.usage).toMatchObject({ inputTokens: 17, cachedInputTokens: 17, outputTokens: 37 });
    expect(finished?.reason).toBe(FinishReason.STOP);
  });

  test("a continued answer without a seed is sampled again from the same distribution", async () => {
    const wanted = request("Go.", { sampling: { ...hot(), seed: undefined }, maxOutputTokens: 24 });
    const whole = await produced(random, wanted);
    const goOn = { ...wanted, continuation: continuation(whole, 4) };
    const rests = await Promise.all([produced(random, goOn), produced(random, goOn)]);
    for (const { tokens } of rests) expect(tokens.slice(0, 4)).toEqual(whole.tokens.slice(0, 4));
    expect(rests[0]?.tokens).not.toEqual(rests[1]?.tokens);
  });

  const strict = request("Give me a person.", strictly(PERSON));
  test.each<[string, GenerateRequest, (tokens: readonly number[]) => Partial<Continuation>, string]>([
    ["another revision", strict, () => ({ modelRevision: "other" }), "REVISION_MISMATCH"],
    [
      "a token that the grammar refuses",
      strict,
      (tokens) => ({ tokens: [...tokens.slice(0, 3), ...tokens.slice(0, 3)] }),
      "INVALID_REQUEST",
    ],
    ["an invalid token", strict, () => ({ tokens: [4_294_967_295] }), "INVALID_REQUEST"],
    ["more tokens than the window", strict, (tokens) => ({ tokens: Array(5_000).fill(tokens[0]) }), "INVALID_REQUEST"],
    ["tokens after the answer's end", strict, (tokens) => ({ tokens: [...tokens, ...tokens] }), "INVALID_REQUEST"],
    [
      "another end of reasoning than the node's",
      request("What is 3 plus 4?", thinking(3)),
      (tokens) => ({ tokens: [...tokens.slice(0, 3), ...tokens.slice(0, 3)] }),
      "INVALID_REQUEST",
    ],
  ])("an answer is not continued with %s", async (_what, wanted, fields, reason) => {
    const whole = await produced(demo, wanted);
    const lie = { ...continuation(whole, whole.tokens.length), ...fields(whole.tokens) };
    await expect(produced(demo, { ...wanted, continuation: lie })).rejects.toMatchObject({ reason });
    expect(demo.load()).toMatchObject({ busySlots: 0, waiting: 0 });
  });
});
