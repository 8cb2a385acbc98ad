import { describe, expect, test } from "vitest";
import type { DimensionReading } from "../../../../gateway/limits/dimension.ts";
import type { Measure } from "../../../../gateway/limits/measures.ts";
import { duration, rateLimitHeaders } from "../../../../gateway/limits/rate-limit-headers.ts";

const NOW_MS = Date.parse("2026-03-01T12:00:00.250Z");

function reading(
  measure: Measure,
  limit: number,
  remaining: number,
  resetMs: number,
  model?: string,
): DimensionReading {
  const rule = { kind: "bucket", perMinute: limit, capacity: limit } as const;
  return {
    dimension: { measure, model, limit, name: model === undefined ? measure : `${measure}:${model}`, rule },
    reading: { remaining, resetMs, waitMs: 0 },
  };
}

const all = [
  reading("rpm", 60, 59.5, 500),
  reading("itpm", 100_000, 40_000.9, 36_000),
  reading("otpm", 5_000, -20, 60_240),
];

describe("the headers", () => {
  test("the headers of Format B count input and output too, and name moments", () => {
    expect(rateLimitHeaders("b", all, NOW_MS)).toEqual({
      "anthropic-ratelimit-requests-limit": "60",
      "anthropic-ratelimit-requests-remaining": "59",
      "anthropic-ratelimit-requests-reset": "2026-03-01T12:00:01Z",
      "anthropic-ratelimit-tokens-limit": "5000",
      "anthropic-ratelimit-tokens-remaining": "0",
      "anthropic-ratelimit-tokens-reset": "2026-03-01T12:01:01Z",
      "anthropic-ratelimit-input-tokens-limit": "100000",
      "anthropic-ratelimit-input-tokens-remaining": "40000",
      "anthropic-ratelimit-input-tokens-reset": "2026-03-01T12:00:37Z",
      "anthropic-ratelimit-output-tokens-limit": "5000",
      "anthropic-ratelimit-output-tokens-remaining": "0",
      "anthropic-ratelimit-output-tokens-reset": "2026-03-01T12:01:01Z",
    });
  });

  test("the headers omit measures without a limit", () => {
    expect(rateLimitHeaders("a", [], NOW_MS)).toEqual({});
    expect(rateLimitHeaders("b", [reading("tokensPerDay", 9, 9, 9)], NOW_MS)).toEqual({});
    expect(Object.keys(rateLimitHeaders("b", [reading("itpm", 10, 5, 1)], NOW_MS))).toEqual([
      "anthropic-ratelimit-tokens-limit",
      "anthropic-ratelimit-tokens-remaining",
      "anthropic-ratelimit-tokens-reset",
      "anthropic-ratelimit-input-tokens-limit",
      "anthropic-ratelimit-input-tokens-remaining",
      "anthropic-ratelimit-input-tokens-reset",
    ]);
  });

  test("the headers show a model's own limit where it is the tighter one", () => {
    const both = [reading("rpm", 60, 30, 1), reading("rpm", 6, 1, 50_000, "svc-qwen")];
    expect(rateLimitHeaders("a", both, NOW_MS)["x-ratelimit-limit-requests"]).toBe("6");
  });
});

test.each([
  [0, "0s"],
  [12, "12ms"],
  [999, "999ms"],
  [1_000, "1s"],
  [1_500, "1.5s"],
  [59_999, "59.999s"],
  [60_000, "1m0s"],
  [360_000, "6m0s"],
  [360_001, "6m1s"],
  [3_723_000, "1h2m3s"],
  [86_400_000, "24h0m0s"],
])("%d milliseconds are %s", (ms, text) => {
  expect(duration(ms)).toBe(text);
});
