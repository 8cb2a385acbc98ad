import { describe, expect, test } from "vitest";
import { cacheUse, countRequest, responseFlags, userAgentFamily } from "../../../../gateway/http/record/access-log.ts";
import { type ClosedRequest, requestOutcome } from "../../../../gateway/http/record/request-record.ts";
import { Stats } from "../../../../gateway/stats/stats.ts";
import { type Finished, FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { closedRequest, newRecord } from "../../../support/requests/closed-request.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

test.each([
  [0, undefined, "client_closed"],
  [0, "client_closed", "client_closed"],
  [200, undefined, "ok"],
  [200, "complete", "ok"],
  [200, "length", "ok"],
  [200, "engine_died", "server_error"],
  [200, "stall", "server_error"],
  [200, "deadline", "server_error"],
  [200, "shed", "server_error"],
  [200, "drain", "server_error"],
  [200, "error", "server_error"],
  [200, "client_closed", "client_closed"],
  [200, "slow_reader", "client_closed"],
  [400, "error", "client_error"],
  [404, undefined, "client_error"],
  [429, undefined, "rate_limited"],
  [503, "error", "server_error"],
  [529, undefined, "server_error"],
] as const)("status %s and end %s is %s", (code, endReason, outcome) => {
  expect(requestOutcome(code, endReason)).toBe(outcome);
});

const FINISHED = { reason: FinishReason.STOP, usage: undefined, timings: undefined } as unknown as Finished;

describe("the record of a request", () => {
  test("the first of several failures is the reason", () => {
    const record = newRecord();
    record.failed("upstream_reset", false);
    record.failed("upstream_timeout", true);
    record.refused("invalid_value");
    expect(record.closed(200, true)).toMatchObject({ detail: "upstream_reset", endReason: "engine_died" });
  });

  test("a request that ends without capacity costs as much as its attempt that killed a node", () => {
    const record = newRecord();
    record.attemptFailed("upstream_reset");
    record.failed("no_healthy_upstream", false);
    expect(record.cost).toBe("work");
  });

  test("a request refused for lack of capacity costs nothing, and an answered one its work", () => {
    const record = newRecord();
    record.failed("no_healthy_upstream", false);
    expect(record.cost).toBe("nothing");
    expect(newRecord().cost).toBe("work");
  });

  test("an error reply without an answer has a token and no end reason", () => {
    const record = newRecord();
    record.refused("invalid_value");
    expect(record.closed(400, true)).toMatchObject({ detail: "invalid_value", endReason: undefined });
  });

  test("a stalled reader is the reason, whatever follows from it", () => {
    const record = newRecord();
    record.readerStalled();
    record.failed("downstream_remote_disconnect", true);
    expect(record.closed(200, false)).toMatchObject({ endReason: "slow_reader", outcome: "client_closed" });
  });

  test.each([
    [200, "client_closed", "downstream_remote_disconnect"],
    [0, "client_closed", "downstream_remote_disconnect"],
    [413, undefined, undefined],
  ] as const)("a truncated reply with %i ends as %s", (code, endReason, detail) => {
    expect(newRecord().closed(code, false)).toMatchObject({ endReason, detail });
  });

  test("a complete answer stays so when its connection is cut", () => {
    const record = newRecord();
    record.finished(FINISHED);
    expect(record.closed(200, false)).toMatchObject({ endReason: "complete", detail: undefined });
  });

  test("times count from the arrival, the wait from the sending, the acceptance from the newest call", async () => {
    const clock = new VirtualClock();
    const record = newRecord({ clock });
    await clock.advance(2);
    record.sent();
    record.generateSent("10.0.0.1:1");
    record.generateEnded("cancelled");
    await clock.advance(10);
    record.generateSent("10.0.0.2:1");
    await clock.advance(3);
    record.started();
    await clock.advance(4);
    record.delta();
    await clock.advance(20);
    record.delta();
    record.finished(FINISHED);
    expect(record.closed(200, true)).toMatchObject({
      ...{ attempts: 2, endpoint: "10.0.0.2:1" },
      ...{ sent: { atMs: 2 }, accepted: { queueMs: 13, acceptMs: 3 } },
      ...{ firstDeltaMs: 19, finished: { atMs: 39 }, totalMs: 39 },
    });
  });

  test("the longest gap counts, and all the time that the engine waited for the client", async () => {
    const clock = new VirtualClock();
    const record = newRecord({ clock });
    for (const gapMs of [5, 9, 7]) record.wrote(gapMs);
    for (const pauseMs of [3, 4]) {
      record.paused(true);
      await clock.advance(pauseMs);
      record.paused(false);
    }
    expect(record.closed(200, true)).toMatchObject({ maxGapMs: 9, backpressureMs: 7 });
  });
});

test("a request that was admitted late because of its prefill is marked", () => {
  const record = newRecord();
  record.overdue();
  expect([record, newRecord()].map((one) => one.closed(200, true).overdue)).toEqual([true, false]);
});

test.each([
  ["claude-cli/2.1.329 (external, cli)", "claude-code"],
  ["codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)", "codex"],
  ["opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14", "opencode"],
  ["ai/6.0.326 ai-sdk/provider-utils/4.0.66 runtime/node.js/v20.20.2", "ai-sdk"],
  ["Anthropic/JS 1.11.0", "anthropic-node"],
  ["AsyncOpenAI/Python 2.3.0", "openai-python"],
  ["Agents/JavaScript 0.20.0", "openai-agents"],
  ["curl/8.5.0", "curl"],
])("%s is %s", (userAgent, family) => {
  expect(userAgentFamily(userAgent)).toBe(family);
});

test.each(["my secret tool", "x".repeat(10_000), "\u0000"])("an unknown agent's text is never logged", (userAgent) => {
  expect(userAgentFamily(userAgent)).toBe("other");
});

test.each([undefined, ""])("a missing header has no family", (userAgent) => {
  expect(userAgentFamily(userAgent)).toBeUndefined();
});

const usage = (inputTokens: number, cachedInputTokens: number) => ({
  inputTokens,
  cachedInputTokens,
  cacheWriteTokens: 0,
  outputTokens: 11,
  reasoningTokens: 0,
});

async function recorded(pattern: string, fields: Partial<ClosedRequest>): Promise<string> {
  const stats = new Stats();
  const record = newRecord({ path: pattern });
  countRequest(stats, closedRequest({ totalMs: 2_000, ...fields }, record));
  return stats.registry.metrics();
}

describe("a finished request", () => {
  test("a finished request gives the time between tokens from the first delta to the last event, and why it ended", async () => {
    const text = await recorded("/v1/responses", {
      parsed: { model: "svc-qwen", stream: true, unopened: 0 },
      firstDeltaMs: 500,
      finished: { atMs: 1_500, reason: FinishReason.CONTEXT_WINDOW, usage: usage(10, 0) },
    });
    expect(text).toContain('svc_time_per_output_token_seconds_sum{model="svc-qwen"} 0.1');
    expect(text).toContain('svc_time_to_first_token_seconds_sum{model="svc-qwen",cache="miss"} 0.5');
    expect(text).toContain('svc_answers_total{model="svc-qwen",reason="context_window"} 1');
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

const failed = (detail: ClosedRequest["detail"], more: Partial<ClosedRequest> = {}) =>
  responseFlags({ detail, endReason: undefined, attempts: 1, firstDeltaMs: undefined, ...more });

describe("response flags", () => {
  test.each([
    ["no_healthy_upstream", "UH"],
    ["upstream_draining", "UH"],
    ["upstream_reset", "UC"],
    ["upstream_aborted", "UR"],
    ["upstream_protocol_error", "UPE"],
    ["upstream_queue_full", "UO"],
    ["upstream_timeout", "UT"],
    ["unknown_url", "NR"],
    ["unknown_model", "NC"],
    ["key_rpm_exceeded", "RL"],
    ["key_model_concurrency_exceeded", "RL"],
    ["unclear_transfer_encoding", "DPE"],
    ["overload_stop_accepting_requests", "OM"],
    ["downstream_remote_disconnect", "DC"],
    ["drain_timeout", "LR"],
    ["request_of_death", "UO"],
    ["request_of_death_suspected", "UO"],
  ] as const)("the response flag of %s is %s", (detail, flag) => expect(failed(detail)).toBe(flag));

  test.each([[undefined], ["invalid_value"], ["api_key_missing"], ["auth_failures_exceeded"]] as const)(
    "%s is not an upstream failure",
    (detail) => expect(failed(detail)).toBe("-"),
  );

  test("a client that disconnected, or stopped reading, is the reason whatever followed", () => {
    expect(failed("upstream_reset", { endReason: "client_closed" })).toBe("DC");
    expect(failed("downstream_remote_disconnect", { endReason: "slow_reader" })).toBe("SI");
  });

  test("several failed attempts set the flag for exhausted retries", () => {
    expect(failed("upstream_reset", { attempts: 3 })).toBe("UC,URX");
    expect(failed("upstream_reset", { attempts: 1 })).toBe("UC");
  });

  test.each([
    ["a stream that broke after its first delta", "upstream_reset", true],
    ["a time limit of the whole request", "upstream_timeout", false],
    ["a message that no endpoint takes", "upstream_message_too_large", false],
    ["the end of this process", "drain_timeout", false],
    ["a request that kills engines", "request_of_death", false],
  ] as const)("%s was not retried, however many attempts came before", (_, detail, begun) => {
    expect(failed(detail, { attempts: 3, firstDeltaMs: begun ? 5 : undefined })).not.toContain("URX");
  });
});
