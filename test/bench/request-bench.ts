import { setTimeout as sleep } from "node:timers/promises";
import { RequestClient } from "./load/request-client.ts";
import { SaturatingClient } from "./load/saturating-client.ts";
import type { Target, Targets } from "./processes/targets.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianAdded, medianOf, medianRatio } from "./report/compare.ts";
import { cpuOf } from "./report/cpu.ts";
import { interleave } from "./report/interleave.ts";
import { percentile } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

/** A connection takes a thousand at most before the gateway closes it. */
const REQUESTS = 900;
const EVENTS = 4;
/** The same requests over some connections, for so many milliseconds before: whoever stood idle meanwhile is cold again. */
const WARM = { connections: 4, ms: 3_000 };

type Measured = { readonly cpuUs: number; readonly p50Ms: number; readonly p99Ms: number };

/**
 * Measures what the gateway adds to short streamed requests, one after the other on one connection, when nothing else
 * runs.
 */
export async function requestBench(targets: Targets, settings: BenchSettings): Promise<BenchResult> {
  const all: readonly Target[] = [targets.direct, ...targets.floors, ...targets.gateways];
  const rounds = await interleave(all, settings.repetitions, (target) => measure(target));
  const rows = all.map(
    ({ name }): Row => ({
      target: name,
      toHttp: medianRatio(rounds, name, "http", ({ cpuUs }) => cpuUs),
      toNginx: medianRatio(rounds, name, "nginx", ({ cpuUs }) => cpuUs),
      addedP50Ms: medianAdded(rounds, name, "direct", ({ p50Ms }) => p50Ms),
      addedP99Ms: medianAdded(rounds, name, "direct", ({ p99Ms }) => p99Ms),
      cpuUsPerRequest: medianOf(rounds, name, ({ cpuUs }) => cpuUs / REQUESTS),
      p50Ms: medianOf(rounds, name, ({ p50Ms }) => p50Ms),
      p99Ms: medianOf(rounds, name, ({ p99Ms }) => p99Ms),
    }),
  );
  return {
    title: `request: ${REQUESTS} requests of ${EVENTS} events, one after the other`,
    columns: [
      { key: "target", title: "in the middle" },
      { key: "toHttp", title: "CPU to http", digits: 2 },
      { key: "toNginx", title: "to nginx", digits: 2 },
      { key: "addedP50Ms", title: "added p50 ms", digits: 2 },
      { key: "addedP99Ms", title: "p99 ms", digits: 2 },
      { key: "cpuUsPerRequest", title: "CPU us/request", digits: 0 },
      { key: "p50Ms", title: "p50 ms", digits: 2 },
      { key: "p99Ms", title: "p99 ms", digits: 2 },
    ],
    rows,
    notes: [
      "Added: less the same request straight to the engine's plain HTTP. The gateway's share holds the gRPC call to the engine too.",
      `Median of ${settings.repetitions} interleaved rounds, each warmed right before; ratios and differences are taken within a round.`,
    ],
  };
}

async function measure(target: Target): Promise<Measured> {
  const text = target.request({ events: EVENTS, eventsPerSecond: 0, eventsPerWrite: EVENTS });
  const warming = new SaturatingClient(target, text, WARM.connections);
  await sleep(WARM.ms);
  warming.close();
  warming.read();
  const client = await RequestClient.open(target);
  const cpuBefore = cpuOf(target);
  const timesMs: number[] = [];
  while (timesMs.length < REQUESTS) timesMs.push(await client.ask(text));
  const cpuAfter = cpuOf(target);
  client.close();
  return {
    cpuUs: (cpuAfter - cpuBefore) * 1000,
    p50Ms: percentile(timesMs, 0.5),
    p99Ms: percentile(timesMs, 0.99),
  };
}
