import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { type WireCall, WireNode } from "../../support/engine/wire-node.ts";
import { delta, started, textAnswer, textStart } from "../../support/events/events.ts";
import { ANSWER_PATHS, bodyFor, brokenEnd, endOf, hasDelta } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { closedLoop, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import { lostEnd } from "../../support/processes/fault-bunch.ts";
import { outcomeOf } from "../../support/processes/fault-front.ts";
import { Fleet, healthy, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";
import { covering } from "../../support/size.ts";

/* Nodes that fail repeatedly, or because of one request. */

const CLIENTS = size(9, 40);

const fleet = new Fleet();

async function wireNodes(count: number, play: (call: WireCall, node: () => WireNode) => void): Promise<WireNode[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const node: WireNode = await WireNode.start({ models: ["svc-qwen"], play: (call) => play(call, () => node) });
      fleet.onEnd(() => node.stop());
      return node;
    }),
  );
}

test("H9 and H13 a node that crashed under load and restarts, empty, gets few requests at first", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const [died] = nodes;
  if (!died) throw new Error("three nodes were started");
  const gateway = await fleet.inFrontOf(nodes, {
    lbPolicy: "round_robin",
    outlierDetection: { baseEjectionTimeMs: 1_000 },
  });
  const load = closedLoop(gateway, CLIENTS);
  await becomes(async () => (await died.metric("svc_engine_slots_busy")) > 0, "it works");
  await died.kill();
  await becomes(async () => (await gateway.health(died.address)) !== "healthy", "it is found out");
  await died.startAgain();
  await healthy(gateway, died.address);
  const before = load.ended.length;
  await becomes(async () => load.ended.length > before + 120, "requests flow");
  const [got, all] = [await died.metric("svc_engine_generations_total"), load.ended.length - before];
  const ended = await load.finish(load.ended.length);
  show("a node started again", { clients: CLIENTS, ...tallyOf(ended), got, all });
  expect(got).toBeLessThan(all / 5);
  expect(wronglyEnded(ended)).toEqual([]);
  await nothingOpen(gateway, nodes);
});

test("H11 of four nodes that all fail two are ejected at most, and the others are still asked", async () => {
  const nodes = await wireNodes(4, (call) => call.end(13));
  const gateway = await fleet.inFrontOf(nodes, {
    lbPolicy: "round_robin",
    outlierDetection: {
      consecutiveGatewayFailure: 2,
      baseEjectionTimeMs: 60_000,
    },
  });
  const asked = () => nodes.reduce((sum, { calls }) => sum + calls.length, 0);
  const ask = async () => (await gateway.post("/v1/messages", bodyFor("/v1/messages", "hi"))).status;
  for (let request = 0; request < 12; request += 1) expect(await ask()).toBe(529);
  const flags = await Promise.all(nodes.map(({ address }) => gateway.health(address)));
  expect(flags.filter((flag) => flag === "/failed_outlier_check")).toHaveLength(2);
  const before = asked();
  expect(await ask()).toBe(529);
  expect(asked()).toBeGreaterThan(before);
  expect(await gateway.stat("svc_cluster_outlier_ejections_total", 'enforced="false"')).toBeGreaterThan(0);
});

describe("H12 a request that kills every node that works on it", () => {
  const ways = ["kills before its first delta", "silences", "kills behind its first delta"] as const;
  // Without FULL=1 every way and every format, but not each with each.
  const rows = covering(
    ways.flatMap((way) => ANSWER_PATHS.map((path) => ({ way, path }))),
    ({ way }) => way,
    ({ path }) => path,
  );
  const pathsOf = (wanted: (typeof ways)[number]) => rows.filter(({ way }) => way === wanted).map(({ path }) => path);
  const isPoison = ({ request }: WireCall) => JSON.stringify(request).includes("poison");

  test.each(rows.filter(({ way }) => way !== "kills behind its first delta"))(
    "H12 of $path $way two of its nodes, and is then refused untried",
    async ({ way, path }) => {
      const nodes = await wireNodes(3, (call, node) => {
        call.send(started());
        if (isPoison(call)) return way === "silences" ? undefined : void call.delivered().then(() => node().crash());
        call.send(...textAnswer("fine").slice(1));
        call.end();
      });
      const timeouts = { perTryIdleTimeoutMs: 2_000 };
      const gateway = await fleet.inFrontOf(nodes, { lbPolicy: "round_robin" }, { timeouts });
      for (const stream of [true, false]) {
        const answer = await gateway.post(path, bodyFor(path, "poison", { stream }));
        const { status, log } = await outcomeOf(gateway, answer);
        expect({ status, detail: log.detail }).toEqual({ status: 500, detail: "request_of_death" });
        expect(answer.headers.get("x-should-retry")).toBe("false");
        expect(log.attempts).toBe(stream ? 2 : undefined);
        expect(nodes.filter(({ calls }) => calls.some(isPoison))).toHaveLength(2);
      }
      const other = await gateway.post(path, bodyFor(path, "another"));
      expect({ status: other.status, fine: (await other.text()).includes("fine") }).toEqual({
        status: 200,
        fine: true,
      });
    },
  );

  test.each(pathsOf("kills behind its first delta"))(
    "H12 of %s kills two behind its first delta, however often it comes",
    async (path) => {
      const nodes = await wireNodes(3, (call) => call.send(started(), textStart(0), delta(0, "half")));
      const gateway = await fleet.inFrontOf(nodes, { lbPolicy: "round_robin" });
      const body = bodyFor(path, "poison", { stream: true });
      const killed = () => nodes.filter(({ calls }) => calls.length > 0).length;
      // It may return to a node that it has already killed, which is no second one.
      for (let turn = 0; killed() < 2; turn += 1) {
        expect(turn).toBeLessThan(20);
        const reader = readBody(await gateway.post(path, body));
        await reader.until((text) => hasDelta(path, text));
        for (const node of nodes) if (node.calls.some(({ stream }) => !stream.closed)) node.crash();
        const { text, cut } = await reader.toEndOrCut();
        const end = endOf(path, text, cut);
        if (turn === 0) expect(end).toEqual(lostEnd(path));
        // A request that has killed two nodes gets the error frame, because it must not be retried.
        expect(end.end).toBe(killed() < 2 ? brokenEnd(path) : "error");
        for (const { address } of nodes) await healthy(gateway, address);
      }
      const { status, log } = await outcomeOf(gateway, await gateway.post(path, body));
      expect({ status, detail: log.detail }).toEqual({ status: 500, detail: "request_of_death" });
      expect(killed()).toBe(2);
    },
  );
});
