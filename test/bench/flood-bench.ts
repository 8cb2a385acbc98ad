import { measureWindow, type Window } from "./load/load-window.ts";
import type { Target, Targets } from "./processes/targets.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianOf, medianRatio } from "./report/compare.ts";
import { interleave } from "./report/interleave.ts";
import type { BenchSettings } from "./settings.ts";

const STREAM_COUNTS = [1, 100];
/** The number of events that a fast engine has ready at a time. */
const EVENTS_PER_WRITE = 16;

const cpuPerEvent = ({ cpuUs, events }: Window) => cpuUs / events;
const cpuPerFrame = ({ cpuUs, frames }: Window) => cpuUs / frames;

/** Measures what an event costs when many come at once: as many as the engine can write and the client can read. */
export async function floodBench(targets: Targets, settings: BenchSettings): Promise<BenchResult> {
  const all: readonly Target[] = [...targets.floors, ...targets.gateways];
  // So many events come that half the time tells as much.
  const seconds = settings.seconds / 2;
  const rows: Row[] = [];
  for (const streams of STREAM_COUNTS) {
    const load = { streams, eventsPerSecond: 0, eventsPerWrite: EVENTS_PER_WRITE };
    const rounds = await interleave(all, settings.repetitions, (target) => measureWindow(target, load, seconds, false));
    for (const { name } of all)
      rows.push({
        streams,
        target: name,
        toHttp: medianRatio(rounds, name, "http", cpuPerEvent),
        toNginx: medianRatio(rounds, name, "nginx", cpuPerEvent),
        cpuUsPerEvent: medianOf(rounds, name, cpuPerEvent),
        cpuUsPerFrame: medianOf(rounds, name, cpuPerFrame),
        eventsPerFrame: medianOf(rounds, name, ({ events, frames }) => events / frames),
        eventsPerSecond: medianOf(rounds, name, ({ events }) => events / seconds),
      });
  }
  return {
    title: "flood: as fast as the engine can write",
    columns: [
      { key: "streams", title: "streams", digits: 0 },
      { key: "target", title: "in the middle" },
      { key: "toHttp", title: "CPU to http", digits: 2 },
      { key: "toNginx", title: "to nginx", digits: 2 },
      { key: "cpuUsPerEvent", title: "CPU us/event", digits: 2 },
      { key: "cpuUsPerFrame", title: "us/frame", digits: 2 },
      { key: "eventsPerFrame", title: "events/frame", digits: 1 },
      { key: "eventsPerSecond", title: "events/s", digits: 0 },
    ],
    rows,
    notes: [
      "An engine node joins deltas for a reader that does not keep up, so that a frame may hold several events.",
      `Median of ${settings.repetitions} interleaved rounds of ${seconds} s; ratios are taken within a round.`,
    ],
  };
}
