import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { FleetBook } from "../../../gateway/fleet/fleet-board.ts";
import { Workers } from "../../../gateway/workers.ts";
import { becomes } from "../../support/becomes.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

/* What one of several gateway workers shows of all. The third one has gone. */

const GONE = "http://127.0.0.1:9";
const CHAT = "/v1/chat/completions";

let service: ScriptedService;
let other: RunningGateway;
let one: RunningAdmin;
let two: RunningAdmin;
const places = [new Workers({ index: 1, count: 3 }), new Workers({ index: 2, count: 3 })] as const;

beforeAll(async () => {
  service = await startScriptedService();
  const board = new FleetBook(systemClock);
  one = await startAdmin(service.gateway, {}, places[0], {}, board);
  other = await startGateway([service.engine.address]);
  two = await startAdmin(other, {}, places[1], {}, board);
  for (const place of places) place.take({ workers: [one.url, two.url, GONE] });
});

afterAll(async () => {
  await two.stop();
  await one.stop();
  await other.stop();
  await service.stop();
});

describe("/workers", () => {
  test("has what each says and the sums of those that answer", async () => {
    await (await service.gateway.post(CHAT, MINIMAL[CHAT])).text();
    const reply = (await (await two.get("/workers?format=json")).json()) as {
      readonly workers: readonly Record<string, unknown>[];
      readonly answered: number;
      readonly total: Record<string, number>;
    };
    const idle = { active: 0, requests: 0, errors: 0 };
    expect(reply.workers).toEqual([
      expect.objectContaining({ index: 1, adminUrl: one.url, state: "LIVE", ...idle, requests: 1 }),
      expect.objectContaining({ index: 2, adminUrl: two.url, state: "LIVE", ...idle }),
      { index: 3, adminUrl: GONE, state: "no answer" },
    ]);
    expect([reply.answered, reply.total]).toEqual([2, expect.objectContaining({ active: 0, requests: 1, errors: 0 })]);
  });

  test("is read line by line, too", async () => {
    const text = await (await one.get("/workers")).text();
    for (const line of [
      "worker 1::state::LIVE",
      `worker 2::adminUrl::${two.url}`,
      "worker 3::state::no answer",
      "total of 2::requests::1",
    ])
      expect(text.split("\n")).toContain(line);
  });
});

test("/fleet sums all of them, with one row for each gateway, model and node", async () => {
  for (const gateway of [service.gateway, other]) await (await gateway.post(CHAT, MINIMAL[CHAT])).text();
  const fleet = async (query = "") => (await (await one.get(`/fleet${query}`)).json()) as Record<string, never>;
  type Row = Record<string, unknown>;
  const rows = async (name: string): Promise<Row[]> => (await fleet())[name] ?? [];
  const modelOf = (all: Row[]) => all.find(({ model }) => model === "svc-qwen");
  await becomes(async () => Number(modelOf(await rows("models"))?.requests) >= 2, "both gateways have told");
  expect((await rows("gateways")).map(({ worker, state }) => [worker, state])).toEqual([
    [1, "LIVE"],
    [2, "LIVE"],
  ]);
  const { address } = service.engine;
  const [node, ...more] = await rows("nodes");
  expect([node, more]).toEqual([expect.objectContaining({ address, gateways: 2, flags: [] }), []]);
  expect(node?.models).toContain("svc-qwen");
  await two.post(`/endpoint/${address}/drain`);
  const flags = async () => JSON.stringify((await rows("nodes"))[0]?.flags);
  await becomes(async () => (await flags()) === '[{"flag":"/draining","gateways":1}]', "one has told of the drain");
  await two.post(`/endpoint/${address}/undrain`);
  expect(await fleet()).toMatchObject({ shared: true, total: { active: 0, queued: 0 }, history: { pointMs: 10_000 } });
  expect((await one.get("/fleet?since=x")).status).toBe(400);
});

test("a worker says which one it is", async () => {
  expect(await (await two.get("/server_info")).json()).toMatchObject({ worker: { index: 2, count: 3 } });
  expect(await (await two.get("/live")).json()).toMatchObject({ worker: { index: 2, count: 3 } });
});

test("other messages change nothing", () => {
  for (const message of [null, "workers", { limits: "placed" }, { workers: "http://x" }]) places[0].take(message);
  expect(places[0].adminUrls).toEqual([one.url, two.url, GONE]);
});
