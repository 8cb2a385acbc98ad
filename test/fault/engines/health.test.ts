import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { type WireCall, WireNode } from "../../support/engine/wire-node.ts";
import { delta, started, textAnswer, textStart } from "../../support/events/events.ts";
import { ANSWER_PATHS, bodyFor, brokenEnd, endOf, hasDelta } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { closedLoop, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import { expectOverloaded, lostEnd } from "../../support/processes/fault-bunch.ts";
import { outcomeOf } from "../../support/processes/fault-front.ts";
import { Fleet, healthy, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";
import { covering } from "../../support/size.ts";

/* Nodes that fail repeatedly, or because of one request. */

const CLIENTS = size(9, 40);

const fleet = new Fleet();

/** Nodes with the same script. */
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

test("H10 a node that stops and resumes repeatedly fails only requests that had begun", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const [flapping] = nodes;
  if (!flapping) throw new Error("three nodes were started");
  const gateway = await fleet.inFrontOf(
    nodes,
    {
      lbPolicy: "round_robin",
      healthChecks: { intervalMs: 500, intervalJitterMs: 0, unhealthyIntervalMs: 200, timeoutMs: 300 },
      outlierDetection: { baseEjectionTimeMs: 500, consecutiveGatewayFailure: 2 },
      circuitBreakers: { retryBudget: { budgetPercent: 100 } },
    },
    { timeouts: { perTryIdleTimeoutMs: 1_000 } },
  );
  const load = closedLoop(gateway, CLIENTS);
  const others = async () => load.ended.length;
  for (let turn = 0; turn < size(2, 20); turn += 1) {
    const before = await others();
    flapping.signal("SIGSTOP");
    await becomes(async () => (await gateway.health(flapping.address)) !== "healthy", "it is out");
    await becomes(async () => (await others()) > before + CLIENTS, "the others serve on");
    flapping.signal("SIGCONT");
    await healthy(gateway, flapping.address);
  }
  const ended = await load.finish(load.ended.length);
  const ejections = await gateway.stat("svc_cluster_outlier_ejections_total", 'enforced="true"');
  show("a node that flaps", { clients: CLIENTS, requests: ended.length, ...tallyOf(ended), ejections });
  expect(wronglyEnded(ended)).toEqual([]);
  expect(ended.filter(({ end }) => end === "refused")).toEqual([]);
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

test("H11 without a healthy node requests that are not held are refused without a try", async () => {
  const nodes = await fleet.engines(2);
  const gateway = await fleet.inFrontOf(nodes, { circuitBreakers: { noEndpointHoldMs: 0 } });
  await Promise.all(nodes.map((node) => node.kill()));
  for (const { address } of nodes)
    await becomes(async () => (await gateway.health(address)) === "/failed_active_hc", "it is found out");
  for (const path of ANSWER_PATHS) {
    const answer = await gateway.post(path, bodyFor(path, "hi", { stream: true }));
    const { status, text, log } = await outcomeOf(gateway, answer);
    expect(status).toBe(path === "/v1/messages" ? 529 : 503);
    expectOverloaded(path, text);
    expect(log).toMatchObject({ detail: "no_healthy_upstream" });
    expect(log.attempts).toBeUndefined();
    expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  }
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

  test.each(pathsOf("kills before its first delta"))(
    "H12 of %s kills two before its first delta, and is then refused untried",
    async (path) => {
      const nodes = await wireNodes(3, (call, node) => {
        call.send(started());
        if (isPoison(call)) return void call.delivered().then(() => node().crash());
        call.send(...textAnswer("fine").slice(1));
        call.end();
      });
      const gateway = await fleet.inFrontOf(nodes, { lbPolicy: "round_robin" });
      const killed = () => nodes.filter(({ calls }) => calls.some(isPoison)).length;
      for (const stream of [true, false]) {
        const answer = await gateway.post(path, bodyFor(path, "poison", { stream }));
        const { status, log } = await outcomeOf(gateway, answer);
        expect({ status, detail: log.detail }).toEqual({ status: 500, detail: "request_of_death" });
        expect(answer.headers.get("x-should-retry")).toBe("false");
        expect(log.attempts).toBe(stream ? 2 : undefined);
        expect(killed()).toBe(2);
      }
      for (const { address } of nodes) await healthy(gateway, address);
      const other = await gateway.post(path, bodyFor(path, "another"));
      expect({ status: other.status, fine: (await other.text()).includes("fine") }).toEqual({
        status: 200,
        fine: true,
      });
    },
  );

  test.each(pathsOf("silences"))(
    "H12 of %s silences two that had taken it up, and is then refused untried",
    async (path) => {
      const nodes = await wireNodes(3, (call) => {
        call.send(started());
        if (isPoison(call)) return;
        call.send(...textAnswer("fine").slice(1));
        call.end();
      });
      const timeouts = { perTryIdleTimeoutMs: 2_000 };
      const gateway = await fleet.inFrontOf(nodes, { lbPolicy: "round_robin" }, { timeouts });
      const silenced = () => nodes.filter(({ calls }) => calls.some(isPoison)).length;
      for (const stream of [true, false]) {
        const answer = await gateway.post(path, bodyFor(path, "poison", { stream }));
        const { status, log } = await outcomeOf(gateway, answer);
        expect({ status, detail: log.detail }).toEqual({ status: 500, detail: "request_of_death" });
        expect(log.attempts).toBe(stream ? 2 : undefined);
        expect(silenced()).toBe(2);
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
