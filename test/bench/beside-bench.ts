import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createKey, type KeyRequest } from "../../gateway/keys/key-admin.ts";
import { updateKeyFile } from "../../gateway/keys/key-file.ts";
import { metricSum } from "../support/metric-text.ts";
import { measureWindow, SETTLE_MS } from "./load/load-window.ts";
import { startChild } from "./processes/child-process.ts";
import { DISTURBANCES, type Disturbance, type DisturbingTask } from "./processes/disturbance.ts";
import { type BenchGateway, GATEWAY_PROGRAM, startBenchGateway } from "./processes/gateway-process.ts";
import { requestText } from "./processes/request-text.ts";
import { pin } from "./references/reference.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { interleave } from "./report/interleave.ts";
import { median } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

/** The processor of the gateway; all others share another one. */
const MEASURED = 0;
const OTHERS = 1;
const STREAMS = { streams: 200, eventsPerSecond: 50, eventsPerWrite: 1, phases: 64 };
const KEYS = 100_000;
const KEY: KeyRequest = {
  ...{ name: "one of many", owner: null, models: "all", limits: {}, quota: {}, weight: 1, expiresAtMs: null },
  env: "live",
  priority: "DEFAULT",
};

/** What was read of the streams while something disturbed them, or nothing did. */
type Reading = {
  readonly gapP99Ms: number;
  readonly gapMostMs: number;
  /** The longest time that a timer of the gateway was late. */
  readonly lagMostMs: number;
  /** How often the disturbance was done. */
  readonly times: number;
};

/** Measures how long running streams stand still while something big is done beside them. */
export async function besideBench({ seconds, quick }: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-beside-"));
  const several = cpus().length > 1;
  if (several) pin(process.pid, OTHERS);
  const engine = await startChild("engine", join(import.meta.dirname, "processes/engine-process.js"), [], folder);
  const { address } = engine.ready as { readonly address: string };
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "gateway"), { engines: [address] });
  const keyFile = join(folder, "gateway", "keys", "keys.json");
  const repetitions = quick ? 1 : 3;
  try {
    await addKeys(keyFile);
    if (several) pin(gateway.pid, MEASURED);
    const targets = [{ name: "nothing", kind: undefined }, ...DISTURBANCES.map((kind) => ({ name: kind, kind }))];
    // The first round is thrown away: threads begin, and code gets hot.
    for (const { kind } of targets) await measure(gateway, keyFile, kind, folder, seconds);
    const rounds = await interleave(targets, repetitions, ({ kind }) =>
      measure(gateway, keyFile, kind, folder, seconds),
    );
    const rows = targets.map(({ name }): Row => {
      const readings = rounds.flatMap((round) => round.get(name) ?? []);
      const values = (value: (reading: Reading) => number) => median(readings.map(value));
      return {
        beside: name,
        gapP99Ms: values(({ gapP99Ms }) => gapP99Ms),
        gapMostMs: values(({ gapMostMs }) => gapMostMs),
        lagMostMs: values(({ lagMostMs }) => lagMostMs),
        times: values(({ times }) => times),
      };
    });
    return {
      title: `beside: ${STREAMS.streams} streams of ${STREAMS.eventsPerSecond} deltas/s while something big is done`,
      columns: [
        { key: "beside", title: "beside" },
        { key: "gapP99Ms", title: "gap p99 ms", digits: 1 },
        { key: "gapMostMs", title: "longest ms", digits: 1 },
        { key: "lagMostMs", title: "gateway's timers late at most ms", digits: 1 },
        { key: "times", title: "times", digits: 0 },
      ],
      rows,
      notes: [
        `Medians of ${repetitions} interleaved rounds of ${seconds} s. A gap is the time between two deltas of one stream, ${1_000 / STREAMS.eventsPerSecond} ms where nothing is late.`,
        "The client, the engine and what disturbs share a processor, so their own delays are in the gaps; the gateway's timers tell of the gateway alone.",
      ],
    };
  } finally {
    await gateway.stop();
    await engine.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function addKeys(keyFile: string): Promise<void> {
  await updateKeyFile(
    keyFile,
    false,
    (set, pepper) => {
      const minting = { pepper, nowMs: Date.now(), random: randomBytes };
      // A set of its own: looking for a free id among all others would take the square of their number.
      const made = Array.from({ length: KEYS }, () => createKey({ ...set, keys: [] }, KEY, minting).value.record);
      return { set: { ...set, keys: [...set.keys, ...made] }, value: undefined };
    },
    new AbortController().signal,
  );
}

async function measure(
  gateway: BenchGateway,
  keyFile: string,
  kind: Disturbance | undefined,
  folder: string,
  seconds: number,
): Promise<Reading> {
  const { port, key, pid } = gateway;
  const target = {
    ...{ name: "gateway", port, pid },
    request: (directive: Parameters<typeof requestText>[2]) => requestText("chat", key, directive),
  };
  const stop = kind && (await disturb({ kind, port, key, keyFile }, folder));
  let lagMostMs = 0;
  // Between the borders alone: opening or leaving all streams at once is nothing that stands beside them.
  const { gapP99Ms, gapMostMs } = await measureWindow(target, STREAMS, seconds, true, SETTLE_MS, async () => {
    lagMostMs = await latenessMs(gateway);
  });
  return { gapP99Ms, gapMostMs, lagMostMs, times: (await stop?.()) ?? 0 };
}

/** Returns how late a timer of the gateway was since the last time it was asked, at most, in milliseconds. */
async function latenessMs({ ready }: BenchGateway): Promise<number> {
  const response = await fetch(`${String(ready.adminUrl)}/stats/prometheus`);
  return metricSum(await response.text(), "nodejs_eventloop_lag_max_seconds") * 1_000;
}

/** Begins to disturb. Returns what ends it, and resolves to how often it was done. */
async function disturb(task: DisturbingTask, folder: string): Promise<() => Promise<number>> {
  const program = join(import.meta.dirname, "processes", "disturbing-process.js");
  const child = await startChild("disturbing", program, [JSON.stringify(task)], folder);
  const done = new Promise<{ readonly times: number }>((resolve) => child.process.once("message", resolve));
  return async () => {
    child.process.kill("SIGTERM");
    return (await done).times;
  };
}
