import { LoadClient } from "./load/load-client.ts";
import { ENDLESS } from "./processes/directive.ts";
import { nowUs } from "./processes/stamp.ts";
import type { Target, Targets } from "./processes/targets.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianOf, medianRatio } from "./report/compare.ts";
import { interleave } from "./report/interleave.ts";
import { percentile } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

const EVENTS_PER_SECOND = 50;
const BUSY_STREAMS = [0, 200];
const BUSY_STREAMS_QUICK = [0, 50];
const LEAVINGS = 50;
const LEAVINGS_QUICK = 20;

type Measured = { readonly p50Ms: number; readonly p99Ms: number };

/**
 * Measures how long it takes until the engine knows that a client left in mid-stream, alone and beside other streams.
 */
export async function cancelBench(targets: Targets, settings: BenchSettings): Promise<BenchResult> {
  const all: readonly Target[] = [...targets.floors, ...targets.gateways];
  const leavings = settings.quick ? LEAVINGS_QUICK : LEAVINGS;
  const rows: Row[] = [];
  for (const streams of settings.quick ? BUSY_STREAMS_QUICK : BUSY_STREAMS) {
    const rounds = await interleave(all, settings.repetitions, (target) => measure(targets, target, streams, leavings));
    for (const { name } of all)
      rows.push({
        streams,
        target: name,
        toHttp: medianRatio(rounds, name, "http", ({ p50Ms }) => p50Ms),
        p50Ms: medianOf(rounds, name, ({ p50Ms }) => p50Ms),
        p99Ms: medianOf(rounds, name, ({ p99Ms }) => p99Ms),
      });
  }
  return {
    title: "cancel: client gone to engine told",
    columns: [
      { key: "streams", title: "other streams", digits: 0 },
      { key: "target", title: "in the middle" },
      { key: "toHttp", title: "p50 to http", digits: 2 },
      { key: "p50Ms", title: "p50 ms", digits: 2 },
      { key: "p99Ms", title: "p99 ms", digits: 2 },
    ],
    rows,
    notes: [`${leavings} leavings a round, median of ${settings.repetitions} interleaved rounds.`],
  };
}

async function measure(targets: Targets, target: Target, streams: number, leavings: number): Promise<Measured> {
  const directive = { events: ENDLESS, eventsPerSecond: EVENTS_PER_SECOND, eventsPerWrite: 1 };
  const busy = await LoadClient.open(
    target,
    Array.from({ length: streams }, () => target.request(directive)),
  );
  try {
    const timesMs: number[] = [];
    while (timesMs.length < leavings) {
      const id = String(timesMs.length);
      const left = targets.left(id);
      const client = await LoadClient.open(target, [target.request({ ...directive, id })]);
      const leftUs = nowUs();
      client.close();
      timesMs.push(((await left) - leftUs) / 1000);
    }
    return { p50Ms: percentile(timesMs, 0.5), p99Ms: percentile(timesMs, 0.99) };
  } finally {
    busy.close();
  }
}
