import type { LlamaContextSequence, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Sampler, type SamplerOptions } from "../../engine/backends/llama/generation/sampling.ts";
import { type LlamaRuntime, loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { missing, never, OPTIONS, RANDOM_MODEL } from "../support/engine/demo-engine.ts";
import { seededRandom } from "../support/seeded-random.ts";

const CONTEXT_TOKENS = 256;
const BATCH_TOKENS = 16;
const GREEDY: SequenceEvaluateOptions = { temperature: 0 };

const tokens = (count: number, seed: number): Token[] => {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => Math.floor(random() * 1_000)) as Token[];
};

describe.skipIf(missing !== "")("the decoder of batches", () => {
  let runtime: LlamaRuntime;
  const samplers: Sampler[] = [];

  beforeAll(async () => {
    const options = { ...OPTIONS, contextTokens: CONTEXT_TOKENS, batchTokens: BATCH_TOKENS, slots: 3 };
    runtime = await loadRuntime({ ...options, modelPath: RANDOM_MODEL }, never());
  });
  afterAll(() => runtime.close());
  afterEach(async () => {
    for (const sampler of samplers.splice(0)) sampler.close();
    for (const sequence of runtime.sequences) await sequence.clearHistory();
  });

  const at = (place: number): LlamaContextSequence => {
    const sequence = runtime.sequences[place];
    if (!sequence) throw new Error("there are fewer sequences");
    return sequence;
  };
  const samplerOf = (place: number, evaluateOptions = GREEDY, more: Partial<SamplerOptions> = {}): Sampler => {
    const options = { evaluateOptions, alternatives: undefined, seed: undefined, position: () => 0, ...more };
    const sampler = new Sampler(runtime.decoder, at(place), options);
    samplers.push(sampler);
    return sampler;
  };
  /** Samples tokens after a prompt, as for an answer. */
  const write = async (sampler: Sampler, prompt: readonly Token[], count: number): Promise<readonly Token[]> => {
    const written: Token[] = [];
    for (let next = prompt; written.length < count; next = written.slice(-1))
      written.push((await sampler.next(next)).token);
    return written;
  };

  test("concurrent requests produce the same tokens as sequential ones, across several batches", async () => {
    const prompts = [40, 3, 17, 16].map((count, place) => tokens(count, place));
    const alone: (readonly Token[])[] = [];
    for (const [place, prompt] of prompts.entries()) {
      alone.push(await write(samplerOf(place), prompt, 8));
      await at(place).clearHistory();
    }
    const together = await Promise.all(prompts.map((prompt, place) => write(samplerOf(place), prompt, 8)));
    expect(together).toEqual(alone);
    expect(runtime.sequences.map(({ nextTokenIndex }) => nextTokenIndex)).toEqual([47, 10, 24, 23]);
    for (const [place, prompt] of prompts.entries())
      expect(at(place).contextTokens).toEqual([...prompt, ...(alone[place] ?? []).slice(0, -1)]);
  });

  test("a prompt evaluated in pieces gives the same tokens as at once", async () => {
    const prompt = tokens(60, 1);
    const whole = await write(samplerOf(0), prompt, 8);
    await Promise.all([runtime.decoder.read(at(1), prompt.slice(0, 33)), runtime.decoder.read(at(2), tokens(9, 2))]);
    expect(await write(samplerOf(1), prompt.slice(33), 8)).toEqual(whole);
  });

  test("a prompt beyond the context is refused, and nothing of it is evaluated", async () => {
    const full = { reason: "ENGINE_ERROR", message: "The context is full." };
    await expect(runtime.decoder.read(at(0), tokens(CONTEXT_TOKENS, 1))).rejects.toMatchObject(full);
    expect(at(0).nextTokenIndex).toBe(0);
    await runtime.decoder.read(at(0), tokens(CONTEXT_TOKENS - 1, 1));
    await expect(samplerOf(0).next(tokens(1, 2))).rejects.toMatchObject(full);
  });

  test("a failed batch fails for all its requests, and for none after it", async () => {
    const nonsense = [1, 2 ** 31 - 1] as Token[];
    const failed = [samplerOf(0).next(nonsense), samplerOf(1).next(tokens(BATCH_TOKENS - 2, 1))];
    const behind = samplerOf(2).next(tokens(1, 2));
    for (const { status } of await Promise.allSettled(failed)) expect(status).toBe("rejected");
    expect((await behind).token).toBe((await write(samplerOf(3), tokens(1, 2), 1))[0]);
    await at(1).clearHistory();
    expect(await write(samplerOf(1), tokens(5, 3), 2)).toHaveLength(2);
  });

  test("tokens equal the library's own, however they are sampled", async () => {
    const random = seededRandom(7);
    const some = <Value>(...values: Value[]): Value => values[Math.floor(random() * values.length)] as Value;
    for (let each = 0; each < 40; each += 1) {
      const prompt = tokens(1 + Math.floor(random() * 30), each);
      const bias = runtime.library.TokenBias.for(runtime.model);
      for (const token of tokens(5, each + 1))
        bias.set(token, some<{ logit: number } | "never">({ logit: 4 }, { logit: -4 }, "never"));
      const written: Token[] = [];
      const grammar = await runtime.llama.createGrammar({ grammar: some("root ::= [a-z ]*", 'root ::= "a"* "."') });
      const held = some(true, false, false);
      const options = (): SequenceEvaluateOptions => ({
        temperature: some(0, 0.7, 1.3),
        // All tokens are drawn from unsorted here, and so by other seeds.
        ...some({ topK: 0, topP: 0.9 }, { topK: 5, topP: 1 }, { topK: 40, topP: some(1, 0.9) }),
        minP: some(0, 0.05),
        seed: Math.floor(random() * 1_000),
        ...some({}, { tokenBias: bias }, { tokenBias: () => bias }),
        ...some({}, { repeatPenalty: { penalty: 1.3, punishTokens: () => written, maxPunishTokens: 16 } }),
        ...(held ? { grammarEvaluationState: newState } : {}),
      });
      // As at the end of reasoning: another grammar state applies from then on.
      let state: InstanceType<typeof runtime.library.LlamaGrammarEvaluationState> | undefined;
      const newState = () => {
        if (written.length % 3 === 0)
          state = new runtime.library.LlamaGrammarEvaluationState({ model: runtime.model, grammar });
        return state;
      };
      // As in a continued answer: the sampled token is not always the next one.
      const replaced = some(true, false);
      const taken = (token: Token): Token => (replaced && written.length % 2 === 1 ? (7 as Token) : token);
      const chosen = options();
      const probabilities = some(true, false);
      const expected: Token[] = [];
      const likely: unknown[] = [];
      const theirs = at(0).evaluateWithMetadata(prompt, { probabilities }, { ...chosen, yieldEogToken: true });
      for (let { value: sample } = await theirs.next(); sample; ) {
        expected.push(sample.token);
        likely.push("probabilities" in sample ? sample.probabilities : undefined);
        written.push(taken(sample.token));
        if (written.length === 7) break;
        ({ value: sample } = await theirs.next(written.slice(-1)));
      }
      await theirs.return();
      state = undefined;
      written.length = 0;
      const ours = samplerOf(1, chosen, { alternatives: probabilities ? 7 : undefined });
      const sampled: Token[] = [];
      for (let next: readonly Token[] = prompt; sampled.length < 7; next = written.slice(-1)) {
        const sample = await ours.next(next);
        const theirs = likely[sampled.length] as ReadonlyMap<Token, number> | undefined;
        expect(sample.probabilities === undefined).toBe(theirs === undefined);
        for (const [token, probability] of sample.probabilities ?? [])
          expect(probability).toBeCloseTo(theirs?.get(token) ?? 0, 5);
        const first = [...(theirs?.keys() ?? [])].slice(0, 7);
        expect([...(sample.probabilities?.keys() ?? [])].slice(0, 7)).toEqual(first);
        sampled.push(sample.token);
        written.push(taken(sample.token));
      }
      expect(sampled).toEqual(expected);
      for (const place of [0, 1]) await at(place).clearHistory();
    }
  });

  test("without top_k tokens are drawn as often as they are likely", async () => {
    const prompt = tokens(3, 8);
    const all = { temperature: 0.3, topK: 0, topP: 1, minP: 0 };
    const draw = async (seed: number) => {
      await at(0).clearHistory();
      return samplerOf(0, all, { seed, alternatives: 50 }).next(prompt);
    };
    const { probabilities = new Map<Token, number>() } = await draw(0);
    const likely = [...probabilities].slice(0, 50);
    const share = likely.reduce((sum, [, probability]) => sum + probability, 0);
    let found = 0;
    for (let seed = 1; seed <= 400; seed += 1)
      if (likely.map(([token]) => token).includes((await draw(seed)).token)) found += 1;
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.95);
    expect(Math.abs(found / 400 - share)).toBeLessThan(3 * Math.sqrt((share * (1 - share)) / 400));
  });

  test("a caller's seed determines each token by its position alone", async () => {
    const prompt = tokens(12, 5);
    const drawn = { temperature: 1.5, topK: 0, topP: 1, minP: 0, seed: 1 };
    const from = (place: number, begun: readonly Token[]) => {
      let position = begun.length - 1;
      const sampler = samplerOf(place, drawn, { seed: 99, position: () => (position += 1) });
      return write(sampler, [...prompt, ...begun], 6);
    };
    const whole = await from(0, []);
    expect((await from(1, whole.slice(0, 2))).slice(0, 4)).toEqual(whole.slice(2));
    expect(await write(samplerOf(2, drawn), prompt, 6)).not.toEqual(whole);
  });
});
