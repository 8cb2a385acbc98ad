import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { Unproven } from "../../../../deploy/prober/edge.ts";
import { METRICS, Prober } from "../../../../deploy/prober/prober.ts";
import { Metrics } from "../../../../deploy/runtime/metrics/metric-table.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MINUTE_MS = 60_000;
const START = "2026-01-01T00:00:00Z";

type Proof = "proven" | "nothing new" | "not kept" | "hangs";

/** Runs a prober of one promise, whose proofs go so, the last one for ever. */
function proving(proofs: readonly Proof[], everyMs = 60 * MINUTE_MS) {
  const clock = new VirtualClock(START);
  const registry = new Registry();
  const stop = new AbortController();
  const lines: string[] = [];
  const provedAt: number[] = [];
  const prove = async (signal: AbortSignal) => {
    const proof = proofs[Math.min(provedAt.push(clock.nowMs() / MINUTE_MS), proofs.length) - 1];
    if (proof === "not kept") throw new Unproven("status_503");
    if (proof === "hangs")
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Unproven("timeout"))));
    return proof === "proven";
  };
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(line.trim()) });
  const promises = [{ name: "limit", everyMs, withinMs: 90 * MINUTE_MS, prove }];
  const ended = new Prober({ promises, clock, log, metrics: new Metrics(METRICS, registry) }).run(stop.signal);
  /** Resolves to the minute of the last proof; undefined before the first. */
  const proven = async () => {
    const { values } = (await registry.getSingleMetric("svc_promise_proven_timestamp_seconds")?.get()) ?? {
      values: [],
    };
    const seconds = values[0]?.value ?? Number.NaN;
    return seconds === 0 ? undefined : (seconds - Date.parse(START) / 1000) / 60;
  };
  return { clock, registry, stop, lines, provedAt, ended, proven };
}

test("a promise is proven at once and at its period, and exports when it was", async () => {
  const { clock, provedAt, proven, registry } = proving(["proven"]);
  await clock.advance(125 * MINUTE_MS);
  expect(provedAt).toEqual([0, 60, 120]);
  expect(await proven()).toBe(120);
  expect(await registry.metrics()).toContain('svc_promise_within_seconds{promise="limit"} 5400');
});

test("one that is not kept is tried again after ten minutes, and logged when that begins and ends", async () => {
  const { clock, provedAt, proven, lines } = proving(["proven", "not kept", "not kept", "proven"]);
  await clock.advance(79 * MINUTE_MS);
  expect(await proven()).toBe(0);
  await clock.advance(6 * MINUTE_MS);
  expect(provedAt).toEqual([0, 60, 70, 80]);
  expect(await proven()).toBe(80);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { level: 40, promise: "limit", reason: "status_503", msg: "a promise is not kept" },
    { level: 30, promise: "limit", msg: "the promise is kept again" },
  ]);
});

test("a proof without news is none, and one that hangs is given up", async () => {
  const quiet = proving(["nothing new"], MINUTE_MS);
  await quiet.clock.advance(5 * MINUTE_MS);
  expect([await quiet.proven(), quiet.lines]).toEqual([undefined, []]);
  const hanging = proving(["hangs", "proven"]);
  await hanging.clock.advance(13 * MINUTE_MS);
  expect(hanging.provedAt).toEqual([0, 12]);
  expect(await hanging.proven()).toBe(12);
});

test("it ends with its signal, in the middle of a proof too, without a complaint", async () => {
  for (const proof of ["hangs", "proven"] as const) {
    const { clock, stop, ended, lines } = proving([proof]);
    await clock.advance(MINUTE_MS);
    stop.abort();
    await ended;
    expect(lines).toEqual([]);
  }
});
