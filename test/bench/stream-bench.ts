import { measureWindow, type Window } from "./load/load-window.ts";
import { KEEPS_NOTHING, type Target, type Targets } from "./processes/targets.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianAdded, medianOf, medianRatio } from "./report/compare.ts";
import { interleave } from "./report/interleave.ts";
import type { BenchSettings } from "./settings.ts";

const EVENTS_PER_SECOND = 50;
const STREAMS = 200;
const STREAMS_QUICK = 100;

const cpuPerEvent = ({ cpuUs, events }: Window) => cpuUs / events;

/** Measures coding agents at work: many streams, each with a small event every 20 ms. */
export async function streamBench(targets: Targets, settings: BenchSettings): Promise<BenchResult> {
  const streams = settings.quick ? STREAMS_QUICK : STREAMS;
  const load = { streams, eventsPerSecond: EVENTS_PER_SECOND, eventsPerWrite: 1 };
  const all: readonly Target[] = [targets.direct, ...targets.floors, ...targets.gateways];
  const rounds = await interleave(all, settings.repetitions, (target) =>
    measureWindow(target, load, settings.seconds, true),
  );
  const rows = all.map(
    ({ name }): Row => ({
      target: name,
      toNet: medianRatio(rounds, name, "net", cpuPerEvent),
      toHttp: medianRatio(rounds, name, "http", cpuPerEvent),
      toNginx: medianRatio(rounds, name, "nginx", cpuPerEvent),
      addedP50Ms: medianAdded(rounds, name, "direct", (window) => window.delayP50Ms),
      addedP99Ms: medianAdded(rounds, name, "direct", (window) => window.delayP99Ms),
      cpuUsPerEvent: medianOf(rounds, name, cpuPerEvent),
      firstByteP50Ms: medianOf(rounds, name, (window) => window.firstByteP50Ms),
      eventsPerSecond: medianOf(rounds, name, (window) => window.events / settings.seconds),
    }),
  );
  const kept = medianRatio(rounds, "gateway chat", `${KEEPS_NOTHING} chat`, cpuPerEvent);
  return {
    title: `stream: ${streams} streams x ${EVENTS_PER_SECOND} events/s`,
    columns: [
      { key: "target", title: "in the middle" },
      { key: "toNet", title: "CPU to net", digits: 2 },
      { key: "toHttp", title: "to http", digits: 2 },
      { key: "toNginx", title: "to nginx", digits: 2 },
      { key: "addedP50Ms", title: "added p50 ms", digits: 2 },
      { key: "addedP99Ms", title: "p99 ms", digits: 2 },
      { key: "cpuUsPerEvent", title: "CPU us/event" },
      { key: "firstByteP50Ms", title: "first byte p50 ms", digits: 2 },
      { key: "eventsPerSecond", title: "events/s", digits: 0 },
    ],
    rows,
    notes: [
      "CPU: user and system time of the process in the middle. Added: engine write to client read, less the same without a middle.",
      "net passes bytes on, http is the simplest node:http proxy, nginx is measured where it is on the PATH.",
      `Keeping answers for another engine to go on with: ${kept.toFixed(3)} times the CPU of keeping none, per event.`,
      `Median of ${settings.repetitions} interleaved rounds of ${settings.seconds} s; ratios and differences are taken within a round.`,
    ],
  };
}
