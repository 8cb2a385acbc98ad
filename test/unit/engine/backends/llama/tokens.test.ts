import type { Token, TokenBias } from "node-llama-cpp";
import { describe, expect, test } from "vitest";
import {
  type SamplingInput,
  samplingDefaults,
  tokenBytes,
  toSamplingOptions,
  wantedLogprobs,
} from "../../../../../engine/backends/llama/generation/sampling.ts";
import { markTokens, Utf8Holder, withoutTokens } from "../../../../../engine/backends/llama/tokens/vocabulary.ts";
import { ControlTokens } from "../../../../../engine/conversation/prompt-pieces.ts";
import { loadProfile } from "../../../../../engine/profiles/profile.ts";
import type { Sampling } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";

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
  ends: [],
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

test("a temperature that would overflow the logits is 0", () => {
  expect(toSamplingOptions(input({ temperature: 1e-38 })).temperature).toBe(0);
  expect(toSamplingOptions(input({ temperature: 1e-6 })).temperature).toBe(1e-6);
});

test("a seed of any size is accepted, and without one the seed is random", () => {
  expect(toSamplingOptions(input({ seed: 4_294_967_295 })).seed).toBe(0);
  expect(toSamplingOptions(input({ seed: Number.MAX_SAFE_INTEGER })).seed).toBeLessThan(2 ** 32 - 1);
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
  test.each(cases)("a sampling parameter out of range is refused by its name: %s: %j", (field, value) => {
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
  test.each(cases)("sampling defaults come from the model file where present: %j", (general, expected) => {
    expect(samplingDefaults(general)).toEqual(expected);
  });
});

describe("the bytes of a token", () => {
  const cases: readonly [name: string, text: string, spelling: string | undefined, bytes: number[]][] = [
    ["are those of its text", " é", "ĠÃ©", [0x20, 0xc3, 0xa9]],
    ["come from its spelling when it is part of a character", "\uFFFD", "ðŁ", [0xf0, 0x9f]],
    ["even an unprintable part", "\uFFFD", "\u0122\u0143", [0x80, 0xad]],
    ["are unknown without a spelling of bytes", "\uFFFD", "漢", []],
    ["are empty without a spelling", "\uFFFD", undefined, []],
  ];
  test.each(cases)("the bytes of a token %s", (_name, text, spelling, bytes) => {
    expect([...tokenBytes(text, spelling)]).toEqual(bytes);
  });
});

/** One token per byte. */
const decode = (bytes: readonly number[]) => Buffer.from(bytes).toString("utf8");

test("bytes that never become a character are not held forever", () => {
  const holder = new Utf8Holder(decode, []);
  const out = [0xff, 0xff, 0xff, 0xff].map((byte) => holder.push(byte));
  expect(out.slice(0, 3)).toEqual(["", "", ""]);
  expect(out[3]).toContain("\uFFFD");
  expect(holder.push(0x61)).toBe("a");
});

const SPELLINGS = ["<|im_end|>", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "｜DSML｜"];
const vocabulary = {
  size: SPELLINGS.length,
  controlTokens: new ControlTokens(SPELLINGS.map((text) => ({ text, stripsLeft: false }))),
  cutsAtWords: true,
  hiddenTokens: [],
  endTokens: [],
  longestTokenBytes: undefined,
  bosText: "",
  eosText: "<|im_end|>",
  markerToken: (spelling: string) => {
    const id = SPELLINGS.indexOf(spelling);
    return id < 0 ? undefined : (id as Token);
  },
};

test("the tokens in a family's markers are those whose text is kept", () => {
  const { reasoning, toolCall } = loadProfile("magistral");
  if (!reasoning || !toolCall) throw new Error("the profile has no marks");
  expect([...markTokens({ reasoning, toolCall }, vocabulary)].sort()).toEqual([1, 2, 3]);
  expect(markTokens({}, vocabulary).size).toBe(0);
});

test.each([
  ["<｜DSML｜invoke>", ["<", "invoke>"]],
  ["[ARGS]", []],
  ["<tool_call>", ["<tool_call>"]],
  ["", []],
])("the rest of %j without its tokens is %j", (mark, parts) => {
  expect(withoutTokens(mark, vocabulary)).toEqual(parts);
});
