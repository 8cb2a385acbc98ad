import { describe, expect, test } from "vitest";
import { requestOutcome } from "../../../../../gateway/http/record/request-record.ts";
import { type Finished, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { newRecord } from "../../../../support/requests/closed-request.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

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
    record.tryFailed("upstream_reset");
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
    record.generateSent("10.0.0.1:1").ended("cancelled");
    await clock.advance(10);
    record.generateSent("10.0.0.2:1");
    await clock.advance(3);
    record.started();
    await clock.advance(4);
    expect([record.delta(), record.delta()]).toEqual([true, false]);
    await clock.advance(20);
    record.finished(FINISHED);
    expect(record.closed(200, true)).toMatchObject({
      ...{ attempts: 2, endpoint: "10.0.0.2:1" },
      ...{ sentMs: 2, queueMs: 13, acceptMs: 3, firstDeltaMs: 19, finishedMs: 39, totalMs: 39 },
    });
  });

  test("the longest gap counts, and all the time that the engine waited for the client", async () => {
    const clock = new VirtualClock();
    const record = newRecord({ clock });
    for (const gapMs of [5, 9, 7]) record.wrote(gapMs);
    for (const pauseMs of [3, 4]) {
      record.paused();
      await clock.advance(pauseMs);
      record.resumed();
    }
    expect(record.closed(200, true)).toMatchObject({ maxGapMs: 9, backpressureMs: 7 });
  });
});

test("a request that was admitted late because of its prefill is marked", () => {
  const record = newRecord();
  record.overdue();
  expect([record, newRecord()].map((one) => one.closed(200, true).overdue)).toEqual([true, false]);
});
