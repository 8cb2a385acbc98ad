import type { Token, TokenBias } from "node-llama-cpp";
import { describe, expect, test } from "vitest";
import {
  type SamplingInput,
  samplingDefaults,
  toSamplingOptions,
  usedSampling,
  wantedLogprobs,
} from "../../../../../../engine/backends/llama/tokens/sampling.ts";
import type { Sampling } from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";

const sampling = (fields: Partial<Sampling>): Sampling => ({ stop: [], logitBias: {}, ...fields });
const input = (fields: Partial<Sampling> | undefined, more: Partial<SamplingInput> = {}): SamplingInput => ({
  sampling: fields && sampling(fields),
  defaults: { temperature: 0.5, topK: 7, topP: 0.9, minP: 0.1 },
  vocabularySize: 100,
  generated: [],
  randomSeed: () => 4242,
  newBias: (): TokenBias => {
    throw new Error("no bias is wanted");
  },
  banned: [],
  ...more,
});

test("every parameter is explicit, from the request or the model's defaults", () => {
  const defaults = { temperature: 0.5, topK: 7, topP: 0.9, minP: 0.1, seed: 4242 };
  expect(toSamplingOptions(input(undefined))).toEqual(defaults);
  expect(toSamplingOptions(input({ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1 }))).toEqual({
    temperature: 0,
    topK: 0,
    topP: 1,
    minP: 0,
    seed: 1,
  });
});

test("a seed of any size is accepted, and without one the seed is random", () => {
  expect(toSamplingOptions(input({ seed: 4_294_967_295 })).seed).toBe(0);
  expect(toSamplingOptions(input({ seed: Number.MAX_SAFE_INTEGER })).seed).toBeLessThan(2 ** 32 - 1);
});

test.each([
  [undefined, { temperature: 0.5, topK: 7, topP: 0.9, minP: 0.1 }, {}],
  [{ temperature: 0, frequencyPenalty: 0.5 }, { temperature: 0, topK: 7, topP: 0.9 }, { frequencyPenalty: 0.5 }],
])("the used parameters are reported in the contract's form: %j", (fields, expected, penalties) => {
  expect(usedSampling(toSamplingOptions(input(fields)))).toMatchObject({
    ...expected,
    ...{ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1, stop: [], logitBias: {} },
    ...penalties,
  });
  expect(usedSampling(toSamplingOptions(input(fields))).seed).toBeUndefined();
});

test("penalties read the tokens generated so far", () => {
  const generated: Token[] = [];
  const { repeatPenalty } = toSamplingOptions(input({ frequencyPenalty: 0.5 }, { generated }));
  expect(repeatPenalty).toMatchObject({ penalty: 1, frequencyPenalty: 0.5, presencePenalty: 0 });
  generated.push(5 as Token);
  const seen = repeatPenalty?.punishTokens;
  expect(typeof seen === "function" ? seen() : seen).toEqual([5]);
});

describe("tokens that are preferred at times", () => {
  const biases = new Map<unknown, Map<number, unknown>>();
  const newBias = () => {
    const known = new Map<number, unknown>();
    const bias = {
      set(token: number, value: unknown) {
        known.set(token, value);
        return bias;
      },
    };
    biases.set(bias, known);
    return bias as unknown as TokenBias;
  };
  const stepsOf = (fields: Partial<Sampling>) => {
    let due: readonly Token[] = [];
    const preferred = () => due;
    const { tokenBias } = toSamplingOptions(input(fields, { newBias, banned: [9 as Token], preferred }));
    if (typeof tokenBias !== "function") throw new Error("the biases are the same at every step");
    return (...lifted: readonly number[]) => {
      due = lifted as readonly Token[];
      return biases.get(tokenBias());
    };
  };

  test("are biased at those steps only", () => {
    const step = stepsOf({});
    const usual = [[9, "never"]];
    const lifted = { logit: 500 };
    expect([...(step() ?? [])]).toEqual(usual);
    expect([...(step(3, 4) ?? [])]).toEqual([[3, lifted], [4, lifted], ...usual]);
    expect([...(step(5) ?? [])]).toEqual([[5, lifted], ...usual]);
    expect([...(step() ?? [])]).toEqual(usual);
  });

  test("keep the request's own bias", () => {
    const step = stepsOf({ logitBias: { 4: -100 } });
    expect(step(3, 4)?.get(4)).toEqual({ logit: -100 });
    expect(step(3, 4)?.get(3)).toEqual({ logit: 500 });
  });
});

describe("parameters that would sample garbage are refused with the name of the field", () => {
  const cases: readonly [field: string, value: Partial<Sampling>][] = [
    ["temperature", { temperature: Number.NaN }],
    ["temperature", { temperature: -1 }],
    ["top_p", { topP: 1.5 }],
    ["min_p", { minP: -0.1 }],
    ["top_k", { topK: 2 ** 31 }],
    ["frequency_penalty", { frequencyPenalty: 3 }],
    ["presence_penalty", { presencePenalty: Number.POSITIVE_INFINITY }],
    ["repetition_penalty", { repetitionPenalty: 0 }],
  ];
  test.each(cases)("%s: %j", (field, value) => {
    const convert = () => toSamplingOptions(input(value));
    expect(convert).toThrow(expect.objectContaining({ reason: "INVALID_REQUEST" }));
    expect(convert).toThrow(`sampling.${field}`);
  });
});

test("log probabilities are returned if their number is given, even 0", () => {
  expect(wantedLogprobs(undefined)).toBeUndefined();
  expect(wantedLogprobs(sampling({}))).toBeUndefined();
  expect(wantedLogprobs(sampling({ topLogprobs: 0 }))).toBe(0);
  expect(() => wantedLogprobs(sampling({ topLogprobs: 51 }))).toThrow("sampling.top_logprobs");
});

describe("defaults come from the model file where present", () => {
  const llamaCpp = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 };
  const cases: readonly [general: object, expected: object][] = [
    [{}, llamaCpp],
    [{ sampling: { temp: Math.fround(0.6) } }, { ...llamaCpp, temperature: 0.6 }],
    [{ sampling: { temp: 0.6, top_k: 20, top_p: 0.9, min_p: 0 } }, { temperature: 0.6, topK: 20, topP: 0.9, minP: 0 }],
    [{ sampling: { temp: "hot", top_k: Number.NaN, top_p: 7, min_p: -1 } }, { ...llamaCpp, topP: 1 }],
    [{ sampling: null }, llamaCpp],
  ];
  test.each(cases)("%j", (general, expected) => {
    expect(samplingDefaults(general)).toEqual(expected);
  });
});
