import { describe, expect, test } from "vitest";
import { type KeyLimits, type KeyQuota, LIMIT_FIELDS } from "../../../../gateway/keys/key-record.ts";
import type { Grant } from "../../../../gateway/limits/grant.ts";
import { type Expected, Limiter, type Use } from "../../../../gateway/limits/limiter.ts";
import { MEASURES, type Measure, UNITS } from "../../../../gateway/limits/measures.ts";
import { MemoryLimitStore } from "../../../../gateway/limits/memory-limit-store.ts";
import type { Usage } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { principalWith } from "../../../support/gateway/principal-with.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const SHORT: Expected = { model: "svc-qwen", inputTokens: 100, maxOutputTokens: 50 };

function usage(inputTokens: number, outputTokens: number, cachedInputTokens = 0): Usage {
  return { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens: 0, reasoningTokens: 0 };
}

function setUp(limits: KeyLimits, quota: KeyQuota = {}) {
  const clock = new VirtualClock("2026-03-01T12:00:00.000Z");
  const store = new MemoryLimitStore(clock);
  const limiter = new Limiter(store);
  const principal = principalWith(limits, quota);
  const admit = (use: Use = "generation") => limiter.admit(principal, use);
  /** A request that has passed both gates; throws when one refuses. */
  const run = async (expected: Expected = SHORT): Promise<Grant> => {
    const { grant, refusal } = await admit();
    const late = refusal ?? (await limiter.reserve(grant, principal, expected));
    if (late) throw late;
    return grant;
  };
  /** The remaining units of each limit, by name. */
  const left = async (use: Use = "none") => {
    const { grant } = await admit(use);
    return Object.fromEntries(grant.readings.map(({ dimension, reading }) => [dimension.name, reading.remaining]));
  };
  return { clock, limiter, principal, admit, run, left };
}

test("the request that exceeds the rate is refused with the exact wait; token counts have a rate of their own", async () => {
  const { clock, admit, left } = setUp({ rpm: 240 });
  for (let i = 0; i < 240; i += 1) expect((await admit()).refusal).toBeUndefined();
  const { refusal } = await admit();
  expect(refusal).not.toHaveProperty("shouldRetry");
  expect(refusal).toMatchObject({
    code: "rate_limit_exceeded",
    message: "Rate limit reached for requests: limit 240/min. Please try again in 0.25s.",
    ...{ limit: "requests", retryAfterMs: 250, detail: "key_rpm_exceeded" },
  });
  const counting = async () => {
    const { grant, refusal } = await admit("count");
    grant.release();
    return refusal;
  };
  for (let i = 0; i < 240; i += 1) expect(await counting()).toBeUndefined();
  expect(await counting()).toMatchObject({ limit: "requests", detail: "key_count_rpm_exceeded" });
  clock.jump(249);
  expect((await admit()).refusal).toBeDefined();
  clock.jump(1);
  expect(await left()).toEqual({ rpm: 1 });
  expect((await admit()).refusal).toBeUndefined();
});

test.each([
  ["the gateway lets every key have", {}, 32],
  ["its record says", { countConcurrency: 5, concurrency: 1 }, 5],
] as const)("concurrent token counts are as many as %s, besides its generations", async (_who, limits, most) => {
  const { admit } = setUp(limits);
  const counts = await Promise.all(Array.from({ length: 40 }, () => admit("count")));
  expect(counts.filter(({ refusal }) => !refusal)).toHaveLength(most);
  expect(counts.at(-1)?.refusal).toMatchObject({
    code: "rate_limit_exceeded",
    message: `Rate limit reached for concurrent token counts: limit ${most}. Please try again in 1s.`,
    ...{ limit: "requests", retryAfterMs: 1_000, detail: "key_count_concurrency_exceeded" },
  });
  expect((await admit()).refusal).toBeUndefined();
  counts[0]?.grant.release();
  expect((await admit("count")).refusal).toBeUndefined();
  expect((await admit("count")).refusal).toBeDefined();
});

describe("tokens per minute", () => {
  test("the estimate is charged first, then the engine's count", async () => {
    const { run, left } = setUp({ itpm: 1_000, otpm: 2_000 });
    const grant = await run({ ...SHORT, inputTokens: 600, maxOutputTokens: 64_000 });
    expect(await left()).toEqual({ itpm: 400, otpm: 976 });
    grant.started({ nodeId: "n", modelRevision: "r", inputTokens: 250, sampling: undefined });
    expect(await left()).toEqual({ itpm: 750, otpm: 976 });
    grant.settle(usage(250, 10));
    expect(await left()).toEqual({ itpm: 750, otpm: 1_990 });
    grant.settle(usage(999, 999));
    expect(await left()).toEqual({ itpm: 750, otpm: 1_990 });
  });

  test("a prompt that no engine has counted is charged by its estimate to the rate, not to the day", async () => {
    const { run, left } = setUp({ itpm: 1_000 }, { tokensPerDay: 5_000 });
    (await run({ ...SHORT, inputTokens: 600 })).settle(undefined);
    expect(await left()).toEqual({ itpm: 400, tokensPerDay: 5_000 });
    const counted = await run();
    counted.started({ nodeId: "n", modelRevision: "r", inputTokens: 250, sampling: undefined });
    counted.settle(undefined);
    expect(await left()).toEqual({ itpm: 150, tokensPerDay: 4_750 });
  });

  test("a cached token costs nothing of input tokens per minute", async () => {
    const { run, left } = setUp({ itpm: 1_000 });
    (await run()).settle(usage(200, 1, 100));
    expect(await left()).toEqual({ itpm: 900 });
  });

  test("an answer that was longer than reserved leaves a debt: the next one waits, whatever it asks", async () => {
    const { clock, admit, run } = setUp({ rpm: 100, otpm: 600 });
    (await run()).settle(usage(100, 900));
    expect((await admit()).refusal).toMatchObject({
      code: "rate_limit_exceeded",
      limit: "tokens",
      retryAfterMs: 30_000,
      detail: "key_otpm_exceeded",
    });
    clock.jump(30_000);
    expect((await admit()).refusal).toBeUndefined();
  });

  test("a long answer is charged while it is written", async () => {
    const { run, left } = setUp({ otpm: 10_000 });
    const grant = await run({ ...SHORT, maxOutputTokens: undefined });
    for (let i = 0; i < 1_024; i += 1) grant.delta();
    expect(await left()).toEqual({ otpm: 8_976 });
    grant.delta();
    expect(await left()).toEqual({ otpm: 8_720 });
    grant.settle(undefined);
    expect(await left()).toEqual({ otpm: 8_975 });
    grant.delta();
    expect(await left()).toEqual({ otpm: 8_975 });
  });

  test("a repeated try starts from nothing, and no more output is reserved than the request can have", async () => {
    const { run, left } = setUp({ otpm: 10_000 });
    const grant = await run();
    expect(await left()).toEqual({ otpm: 9_950 });
    for (let i = 0; i < 40; i += 1) grant.delta();
    grant.started({ nodeId: "n", modelRevision: "r", inputTokens: 5, sampling: undefined });
    grant.delta();
    grant.settle(undefined);
    expect(await left()).toEqual({ otpm: 9_999 });
  });

  test("a prompt larger than the whole bucket passes when it is full", async () => {
    const { run, left, limiter, admit, principal } = setUp({ itpm: 500 });
    const grant = await run({ ...SHORT, inputTokens: 900 });
    expect(await left()).toEqual({ itpm: -400 });
    grant.refund();
    await run();
    const second = await admit();
    const refusal = await limiter.reserve(second.grant, principal, { ...SHORT, inputTokens: 900 });
    expect(refusal).toMatchObject({ retryAfterMs: 12_000, detail: "key_itpm_exceeded", limit: "tokens" });
  });

  test("a request that is refused for its tokens is not counted as a request", async () => {
    const { admit, limiter, principal, left } = setUp({ rpm: 60, itpm: 500, otpm: 500 });
    await limiter.reserve((await admit()).grant, principal, { ...SHORT, inputTokens: 400 });
    const { grant } = await admit();
    expect(await limiter.reserve(grant, principal, { ...SHORT, inputTokens: 400 })).toBeDefined();
    expect(await left()).toEqual({ rpm: 59, itpm: 100, otpm: 450 });
    grant.settle(usage(400, 400));
    expect(await left()).toEqual({ rpm: 59, itpm: 100, otpm: 450 });
  });

  test("a caller that left before its tokens were charged pays none", async () => {
    const { admit, limiter, principal, left } = setUp({ rpm: 60, itpm: 500 });
    const { grant } = await admit();
    const reserved = limiter.reserve(grant, principal, SHORT);
    grant.settle(undefined);
    grant.release();
    await reserved;
    expect(await left()).toEqual({ rpm: 59, itpm: 500 });
  });
});

describe("tokens per day", () => {
  test("tokens per day are charged when an answer ends; once they are used up nothing is answered that day", async () => {
    const { clock, admit, run } = setUp({}, { tokensPerDay: 1_000 });
    const [first, second] = [await run(), await run()];
    first.settle(usage(600, 200, 500));
    expect((await admit()).refusal).toBeUndefined();
    second.settle(usage(600, 200));
    expect((await admit()).refusal).toMatchObject({
      code: "insufficient_quota",
      message:
        "Quota used up for tokens: limit 1000/day. The quota opens again at 00:00 UTC. Please try again in 43200s.",
      retryAfterMs: 43_200_000,
      shouldRetry: false,
      detail: "key_quota_exceeded",
    });
    expect((await admit("count")).refusal).toBeUndefined();
    clock.jump(43_200_000);
    expect((await admit()).refusal).toBeUndefined();
  });
});

test("the generation beyond the permits is refused until one is released, and takes nothing", async () => {
  const { admit, left } = setUp({ concurrency: 2, rpm: 60 });
  const [first] = [await admit(), await admit()];
  const { refusal } = await admit();
  expect(refusal).not.toHaveProperty("shouldRetry");
  expect(refusal).toMatchObject({
    code: "rate_limit_exceeded",
    message: "Rate limit reached for concurrent requests: limit 2. Please try again in 1s.",
    ...{ limit: "requests", detail: "key_concurrency_exceeded" },
  });
  expect(await left()).toEqual({ rpm: 58 });
  first?.grant.release();
  first?.grant.release();
  expect((await admit()).refusal).toBeUndefined();
  expect((await admit()).refusal).toBeDefined();
});

describe("limits for one model", () => {
  const limits = { rpm: 60, concurrency: 5, perModel: { "svc-qwen": { rpm: 1, otpm: 100, concurrency: 1 } } };

  test("limits for one model apply besides the key's own, and to that model only", async () => {
    const { run, left, admit } = setUp(limits);
    const grant = await run();
    await expect(run()).rejects.toMatchObject({ detail: "key_model_concurrency_exceeded" });
    grant.release();
    await expect(run()).rejects.toMatchObject({
      message: "Rate limit reached for requests on svc-qwen: limit 1/min. Please try again in 60s.",
      detail: "key_model_rpm_exceeded",
    });
    for (let i = 0; i < 3; i += 1) await run({ ...SHORT, model: "svc-glm53" });
    expect(await left()).toEqual({ rpm: 56 });
    // Each refused request returned one permit; three are taken.
    expect((await admit()).refusal).toBeUndefined();
    expect((await admit()).refusal).toBeUndefined();
    expect((await admit()).refusal).toMatchObject({ detail: "key_concurrency_exceeded" });
  });

  test("limits for one model are settled with the answer", async () => {
    const { clock, run } = setUp(limits);
    const grant = await run();
    grant.settle(usage(1, 250));
    grant.release();
    clock.jump(60_000);
    await expect(run()).rejects.toMatchObject({ detail: "key_model_otpm_exceeded", retryAfterMs: 60_000 });
  });

  test("a model named like something every object has has none", async () => {
    const { run } = setUp({ perModel: {} });
    await expect(run({ ...SHORT, model: "constructor" })).resolves.toBeDefined();
  });
});

test("every limit is read without a charge", async () => {
  const perModel = { "svc-qwen": { otpm: 3_000, concurrency: 2 } };
  const { limiter, principal, run } = setUp({ rpm: 60, itpm: 600, concurrency: 3, perModel }, { tokensPerDay: 9 });
  const look = async () => {
    const { counted, permits } = await limiter.look(principal);
    return [
      counted.map(({ dimension, reading }) => `${dimension.name} ${reading.remaining}`).join(),
      permits.map(({ name, taken }) => `${name} ${taken}`).join(),
    ];
  };
  const rested = [
    "rpm 60,itpm 600,tokensPerDay 9,countRpm 60,otpm:svc-qwen 3000",
    "concurrency 0,concurrency:svc-qwen 0,countConcurrency 0",
  ];
  expect([await look(), await look()]).toEqual([rested, rested]);
  const grants = [await run(), await run()];
  expect(await look()).toEqual([
    expect.stringMatching(/^rpm 58,itpm 400,/),
    "concurrency 2,concurrency:svc-qwen 2,countConcurrency 0",
  ]);
  for (const grant of grants) grant.release();
  expect((await look())[1]).toBe(rested[1]);
});

/** Every limit with a field in a key's record, over all models and for one. */
const OF_RECORDS = (Object.keys(MEASURES) as Measure[]).flatMap((measure) => {
  const { unit, ofKey, ofModel } = MEASURES[measure];
  if (unit === "counts") return [];
  const one = { [measure]: 1 };
  const ofAllModels =
    measure in LIMIT_FIELDS.quota ? ([measure, {}, one, ofKey] as const) : ([measure, one, {}, ofKey] as const);
  return ofModel ? [ofAllModels, [measure, { perModel: { "svc-qwen": one } }, {}, ofModel] as const] : [ofAllModels];
});

test.each(OF_RECORDS)(
  "%s of %j %j refuses what exceeds it until its window ends",
  async (measure, limits, quota, detail) => {
    const { clock, run } = setUp(limits, quota);
    const { unit, window } = MEASURES[measure];
    const grant = await run();
    expect(grant.readings.map(({ dimension }) => dimension.measure)).toEqual([measure]);
    grant.settle(usage(1, 1));
    await expect(run()).rejects.toMatchObject({
      code: window === "day" ? "insufficient_quota" : "rate_limit_exceeded",
      ...{ limit: UNITS[unit].budget, detail },
    });
    clock.jump(window === "day" ? 43_200_000 : 60_000);
    await run();
  },
);
