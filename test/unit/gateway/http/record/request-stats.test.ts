import { describe, expect, test } from "vitest";
import { cacheUse, countRequest } from "../../../../../gateway/http/record/request-stats.ts";
import { Stats } from "../../../../../gateway/stats/stats.ts";
import { closedRequest, newRecord } from "../../../../support/requests/closed-request.ts";

const usage = (inputTokens: number, cachedInputTokens: number) => ({
  inputTokens,
  cachedInputTokens,
  cacheWriteTokens: 0,
  outputTokens: 11,
  reasoningTokens: 0,
});

async function recorded(pattern: string, fields: object): Promise<string> {
  const stats = new Stats();
  const record = newRecord({ path: pattern });
  countRequest(stats, closedRequest({ totalMs: 2_000, ...fields }, record));
  return stats.registry.metrics();
}

describe("a finished request", () => {
  test("is counted under its route, format and outcome", async () => {
    const text = await recorded("/v1/messages", { model: "svc-qwen" });
    const labels = 'route="/v1/messages",format="messages",code="200",outcome="ok"';
    expect(text).toContain(`svc_http_requests_total{${labels}} 1`);
    const duration = 'operation="messages",model="svc-qwen",outcome="ok"';
    expect(text).toContain(`svc_request_duration_seconds_sum{${duration}} 2`);
  });

  test("of an unknown path adds no series", async () => {
    expect(await recorded("/v1/whatever", {})).toContain('{route="unknown",format="none",code="200",outcome="ok"} 1');
  });

  test("gives the time between tokens from the first delta to the last event", async () => {
    const fields = { model: "svc-qwen", usage: usage(10, 0), firstDeltaMs: 500, finishedMs: 1_500 };
    const text = await recorded("/v1/responses", fields);
    expect(text).toContain('svc_time_per_output_token_seconds_sum{model="svc-qwen"} 0.1');
    expect(text).toContain('svc_time_to_first_token_seconds_sum{model="svc-qwen",cache="miss"} 0.5');
  });
});

test.each([
  [undefined, "unknown"],
  [usage(0, 0), "unknown"],
  [usage(100, 0), "miss"],
  [usage(100, 49), "partial"],
  [usage(100, 50), "hit"],
  [usage(100, 100), "hit"],
] as const)("the cache use of %j is %s", (given, expected) => expect(cacheUse(given)).toBe(expected));
