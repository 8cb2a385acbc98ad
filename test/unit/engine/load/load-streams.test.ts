import { expect, test } from "vitest";
import { loadReport } from "../../../../engine/load/load-report.ts";
import { LoadStreams } from "../../../../engine/load/load-streams.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const RATES = {
  prefillTokensPerSecond: undefined,
  decodeTokensPerSecond: undefined,
  requestsPerSecond: 0,
  errorsPerSecond: 0,
};

function node() {
  const clock = new VirtualClock();
  const load = { slots: 4, busySlots: 0, waiting: 0, kvUse: 0 };
  const looks = { count: 0 };
  const readers: (number | undefined)[] = [];
  const streams = new LoadStreams(clock, (readers) => {
    looks.count += 1;
    return loadReport({ load, rates: RATES, draining: false, readers });
  });
  /** The times of the reports of a stream with that interval. */
  const open = (intervalMs: number | undefined) => {
    const times: number[] = [];
    const state = { ready: true, ended: false, drain: () => {} };
    const reportInterval =
      intervalMs === undefined
        ? undefined
        : { seconds: Math.floor(intervalMs / 1000), nanos: (intervalMs % 1000) * 1_000_000 };
    const leave = streams.open(
      { reportInterval, requestCostNames: [] },
      {
        write: ({ namedMetrics }) => {
          readers.push(namedMetrics["svc.load_readers"]);
          times.push(clock.nowMs());
          return state.ready;
        },
        onDrain: (listener) => {
          state.drain = listener;
        },
        end: () => {
          state.ended = true;
        },
      },
    );
    return { times, state, leave };
  };
  return { clock, load, looks, readers, streams, open };
}

test.each([
  ["none named", undefined, [0, 500, 1000]],
  ["300 ms", 300, [0, 300, 600, 900]],
  ["zero, which would be a flood", 0, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]],
  ["an hour, clamped to a minute", 3_600_000, [0]],
])("the first report is sent at once, the others at the interval: %s", async (_, intervalMs, expected) => {
  const { clock, open } = node();
  const { times } = open(intervalMs);
  await clock.advance(1_000);
  expect(times).toEqual(expected);
  await clock.advance(59_000);
  expect(times.at(-1)).toBe(60_000);
});

test("a sharp change is reported before the end of the interval, and once", async () => {
  const { clock, load, open } = node();
  const { times } = open(10_000);
  await clock.advance(150);
  load.kvUse = 0.3;
  await clock.advance(350);
  load.waiting = 1;
  await clock.advance(500);
  load.busySlots = 1;
  await clock.advance(500);
  expect(times).toEqual([0, 200, 600]);
});

test("a slow reader gets nothing until it has caught up", async () => {
  const { clock, open } = node();
  const slow = open(100);
  slow.state.ready = false;
  await clock.advance(500);
  expect(slow.times).toEqual([0, 100]);
  slow.state.ready = true;
  slow.state.drain();
  await clock.advance(200);
  expect(slow.times).toEqual([0, 100, 600, 700]);
});

test("the load is not sampled without an open stream", async () => {
  const { clock, looks, open } = node();
  const stream = open(100);
  await clock.advance(200);
  stream.leave();
  const { count } = looks;
  await clock.advance(60_000);
  expect(looks.count).toBe(count);
  expect(open(100).times).toHaveLength(1);
});

test("a report contains the number of its readers", async () => {
  const { clock, readers, open } = node();
  const first = open(500);
  open(500);
  await clock.advance(500);
  first.leave();
  await clock.advance(500);
  expect(readers).toEqual([1, 2, 2, 2, 1]);
});

test("closing ends all streams", async () => {
  const { clock, streams, open } = node();
  const all = [open(100), open(200)];
  streams.close();
  await clock.advance(1_000);
  expect(all.map(({ state, times }) => [state.ended, times.length])).toEqual([
    [true, 1],
    [true, 1],
  ]);
});
