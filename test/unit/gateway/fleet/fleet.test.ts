import { expect, test } from "vitest";
import { Fleet } from "../../../../gateway/fleet/fleet.ts";
import { FleetBook } from "../../../../gateway/fleet/fleet-board.ts";
import type { GatewayReport, SeenReport } from "../../../../gateway/fleet/gateway-report.ts";
import {
  answerReports,
  type FleetReply,
  type FleetRequest,
  WorkerBoard,
} from "../../../../gateway/fleet/worker-board.ts";
import { ChannelPair } from "../../../support/channel-pair.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

function reportOf(id: string): GatewayReport {
  const withoutModel = { requests: 0, errors: 0 };
  const rest = {
    uptimeMs: 0,
    connections: 0,
    rssBytes: 0,
    cpuMs: 0,
    loopActiveMs: 0,
    models: [],
    nodes: [],
    withoutModel,
  };
  return { id, host: "h", worker: 1, state: "LIVE", ...rest };
}

/** Workers whose reports go through one process. */
function setUp() {
  const clock = new VirtualClock("2026-03-01T12:00:00Z");
  const book = new FleetBook(clock);
  const worker = async (id: string) => {
    const channel = new ChannelPair<FleetRequest, FleetReply>();
    answerReports(book, channel.host);
    const board = new WorkerBoard(channel.worker, clock);
    const heard: string[][] = [];
    const onOthers = (others: readonly SeenReport[]) => heard.push(others.map(({ report }) => report.id));
    return { channel, heard, fleet: await Fleet.open({ board, report: () => reportOf(id), onOthers, clock }) };
  };
  return { clock, worker };
}

const idsOf = ({ seen }: Fleet) => seen.map(({ report }) => report.id).sort();

test("each worker knows all, and forgets those that are gone for a minute", async () => {
  const { clock, worker } = setUp();
  const [one, two] = [await worker("1"), await worker("2")];
  expect(idsOf(two.fleet)).toEqual(["1", "2"]);
  await clock.advance(5_000);
  expect(idsOf(one.fleet)).toEqual(["1", "2"]);
  two.fleet.close();
  await clock.advance(20_000);
  const gone = one.fleet.seen.find(({ report }) => report.id === "2");
  expect(gone?.ageMs).toBeGreaterThan(one.fleet.lateMs);
  await clock.advance(60_000);
  expect(idsOf(one.fleet)).toEqual(["1"]);
  one.fleet.close();
});

test("one whose starting process is silent tells of itself, and says that it is alone", async () => {
  const { clock, worker } = setUp();
  const [one, two] = [await worker("1"), await worker("2")];
  await clock.advance(5_000);
  one.channel.stick();
  await clock.advance(10_000);
  expect([one.fleet.shared, idsOf(one.fleet)]).toEqual([false, ["1"]]);
  expect(two.fleet.shared).toBe(true);
  await one.channel.comeBack();
  await clock.advance(5_000);
  expect([one.fleet.shared, idsOf(one.fleet)]).toEqual([true, ["1", "2"]]);
});

test("each look tells of the others, and of nobody while the starting process is silent", async () => {
  const { clock, worker } = setUp();
  const [one, two] = [await worker("1"), await worker("2")];
  expect([one.heard, two.heard]).toEqual([[[]], [["1"]]]);
  await clock.advance(5_000);
  expect(one.heard.at(-1)).toEqual(["2"]);
  one.channel.stick();
  await clock.advance(10_000);
  expect(one.heard.at(-1)).toEqual([]);
});
