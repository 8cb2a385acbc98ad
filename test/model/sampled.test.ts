import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { ReasoningMode, type Sampling } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ask, missing, RANDOM_MODEL, request, sharedBackend, startBackend } from "../support/engine/demo-engine.ts";

const POEM = "Write me a short poem about rain.";

describe.skipIf(missing !== "")("sampling parameters have their documented effect", () => {
  let backend: LlamaBackend;
  /** Random weights: small differences between tokens, so that a penalty has an effect. */
  let undecided: LlamaBackend;
  beforeAll(async () => {
    backend = await sharedBackend();
    undecided = await startBackend({ modelPath: RANDOM_MODEL });
  });
  afterAll(() => undecided.close());

  const write = async (fields: Partial<Sampling>, engine = backend) => {
    const sampling = { stop: [], logitBias: {}, topK: 0, topP: 1, minP: 0, ...fields };
    return ask(engine, request(POEM, { sampling, maxOutputTokens: 48 }));
  };

  describe("at a very high temperature, the likeliest token alone remains with", () => {
    const cases: readonly [name: string, fields: Partial<Sampling>][] = [
      ["top_k 1", { topK: 1 }],
      ["min_p 1", { minP: 1 }],
      ["top_p 0", { topP: 0 }],
    ];
    test.each(cases)("%s", async (_name, fields) => {
      const greedy = (await write({ temperature: 0 })).text;
      for (const seed of [1, 2]) {
        expect((await write({ temperature: 3, seed, ...fields })).text).toBe(greedy);
        expect((await write({ temperature: 3, seed })).text).not.toBe(greedy);
      }
    });
  });

  /** Returns the share of repeated tokens. */
  const repetition = async (fields: Partial<Sampling>) => {
    const reply = await write({ temperature: 0, topLogprobs: 0, ...fields }, undecided);
    const tokens = reply.events.flatMap(({ kind }) =>
      kind?.$case === "blockDelta" ? kind.value.logprobs.map(({ token }) => token) : [],
    );
    return 1 - new Set(tokens).size / tokens.length;
  };

  test.each([{ frequencyPenalty: 2 }, { presencePenalty: 2 }, { repetitionPenalty: 5 }])(
    "a penalty reduces repetition: %j",
    async (penalty) => {
      expect(await repetition(penalty)).toBeLessThan(await repetition({}));
    },
  );

  test("a negative penalty increases repetition", async () => {
    expect(await repetition({ frequencyPenalty: -2 })).toBeGreaterThan(await repetition({}));
  });

  test("a bias can force or forbid a token", async () => {
    const [first] = (await write({ temperature: 0, topLogprobs: 1 })).events.flatMap(({ kind }) =>
      kind?.$case === "blockDelta" ? kind.value.logprobs : [],
    );
    const digitSeven = 22;
    const forced = await write({ temperature: 0, logitBias: { [digitSeven]: 100 } });
    expect(first?.token).not.toBe("7");
    expect(forced.text).toMatch(/^7+$/);
  });

  test("reasoning happens only on request, whatever the effort", async () => {
    const off = await ask(
      backend,
      request("Who are you exactly?", { reasoning: { mode: ReasoningMode.DISABLED, effort: 3 } }),
    );
    const unsaid = await ask(backend, request("Who are you exactly?"));
    expect(off.reasoning).toBe("");
    expect(off.text).toBe(unsaid.text);
    expect(off.finished.usage).toMatchObject({ reasoningTokens: 0, inputTokens: unsaid.finished.usage?.inputTokens });
  });
});
