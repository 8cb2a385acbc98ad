import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { ApiError } from "../../../../gateway/errors.ts";
import { UpstreamStats } from "../../../../gateway/stats/upstream-stats.ts";
import { LocalReplies, type Outlook } from "../../../../gateway/upstream/local-replies.ts";
import { metricSum } from "../../../support/metric-text.ts";

/** Local replies, by default without jitter, with the registry of their counters. */
function replying(random = 0.5) {
  const registry = new Registry();
  return { registry, replies: new LocalReplies(new UpstreamStats(registry), () => random) };
}

const outlook = (outageMs?: number, drainMs?: number): Outlook => ({
  outageMs: () => outageMs,
  drainMs: () => drainMs,
});

test.each([
  ["key_overflow", outlook(undefined, 7_000), "key_pending_overflow", 7_000],
  ["pending_overflow", outlook(undefined, 7_000), "upstream_pending_overflow", 7_000],
  ["pending_timeout", outlook(undefined, undefined), "upstream_pending_timeout", 2_000],
  ["none_available", outlook(20_000, 7_000), "no_healthy_upstream", 30_000],
  ["no_endpoints", outlook(), "no_healthy_upstream", 2_000],
  ["pending_overflow", outlook(undefined, 0), "upstream_pending_overflow", 1_250],
  ["pending_overflow", outlook(undefined, 86_400_000), "upstream_pending_overflow", 50_000],
] as const)("no place for %s, with %j: %s, later by %i ms", (why, ahead, detail, retryAfterMs) => {
  expect(replying().replies.notAdmitted(why, "m", ahead)).toMatchObject({ detail, retryAfterMs });
});

test("only a request without a healthy endpoint counts as one", async () => {
  const { registry, replies } = replying();
  for (const why of ["key_overflow", "pending_timeout", "none_available"] as const)
    replies.notAdmitted(why, "m", outlook());
  expect(metricSum(await registry.metrics(), "svc_cluster_upstream_cx_none_healthy_total")).toBe(1);
});

test("failed attempts suggest a retry delay, the endpoint's own first; faults of the request do not", () => {
  const { replies } = replying();
  const detail = "upstream_queue_full";
  const full = new ApiError("server_is_overloaded", "full", { detail });
  const fullFor9s = new ApiError("server_is_overloaded", "full", { detail, retryAfterMs: 9_000 });
  expect(replies.exhausted(fullFor9s, outlook(20_000))).toMatchObject({ detail, retryAfterMs: 9_000 });
  expect(replies.exhausted(full, outlook(20_000))).toMatchObject({ detail, retryAfterMs: 30_000 });
  const fault = new ApiError("context_length_exceeded", "long");
  expect(replies.exhausted(fault, outlook())).toBe(fault);
});

test("six attempts at the suggested delays span more than a minute of an outage, whatever the jitter", () => {
  const { replies } = replying(0);
  let outageMs = 0;
  for (let retries = 0; retries < 5; retries += 1)
    outageMs += replies.notAdmitted("none_available", "m", outlook(outageMs)).retryAfterMs ?? 0;
  expect(outageMs).toBeGreaterThan(75_000);
});
