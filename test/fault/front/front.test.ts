import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { ANSWER_PATHS } from "../../support/http/answer-check.ts";
import { closedLoop, streamOnce, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import type { EngineProcess } from "../../support/processes/engine-process.ts";
import { detailsOf, Fleet, healthy, LONG, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";

/* Faults that a fleet must survive, with real processes. Small by default; FULL=1 has the promised sizes. */

const CLIENTS = size(9, 40);

const fleet = new Fleet();

test("J3 a rolling restart of all nodes fails no request", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const gateway = await fleet.inFrontOf(nodes);
  const load = closedLoop(gateway, CLIENTS);
  const exits: (number | null)[] = [];
  for (const node of nodes) {
    const before = load.ended.length;
    await becomes(async () => load.ended.length > before + CLIENTS, "requests flow");
    exits.push(await node.stop());
    await node.startAgain();
    await healthy(gateway, node.address);
  }
  const ended = await load.finish(Math.max(load.ended.length, size(60, 1_000)));
  show("rolling restart of 3 of 3", {
    clients: CLIENTS,
    requests: ended.length,
    ...tallyOf(ended),
    exits,
    ...detailsOf(gateway),
  });
  expect(tallyOf(ended)).toEqual({ complete: ended.length });
  expect(exits).toEqual([0, 0, 0]);
  await nothingOpen(gateway, nodes);
});

test("J4 kill -9 of three nodes, one after the other, has every request answered in the end", async () => {
  const nodes = await fleet.engines(3, LONG);
  const gateway = await fleet.inFrontOf(nodes);
  const clients = size(12, 60);
  let unanswered = clients;
  const answered = Array.from({ length: clients }, async (_, index) => {
    const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
    const once = async () => (await streamOnce(gateway, path, `client ${index}`)).end === "complete";
    await becomes(once, `client ${index} is answered`);
    unanswered -= 1;
  });
  const busy = async (among: readonly EngineProcess[]) =>
    (await Promise.all(among.map((node) => node.metric("svc_engine_slots_busy")))).reduce(
      (sum, slots) => sum + slots,
      0,
    );
  for (const [at, node] of nodes.entries()) {
    // Requests that have met two deaths avoid the third node for a while.
    const [among, wanted] = at < 2 ? [nodes.slice(at), clients] : [[node], 2];
    await becomes(async () => (await busy(among)) >= Math.min(wanted, unanswered), "they work on all that comes");
    await node.kill();
  }
  for (const node of nodes) await node.startAgain();
  // None is denied as if it had killed the nodes: that would last for minutes.
  await Promise.all(answered);
  show("kill -9 of 3 of 3 in a row", { clients, ...detailsOf(gateway) });
  await nothingOpen(gateway, nodes);
});

test("H2 a stopped node is ejected, and returns when it resumes", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const [stopped] = nodes;
  const address = stopped?.address ?? "";
  // Checks so rare that requests detect the fault.
  const healthChecks = { intervalMs: 60_000 };
  const gateway = await fleet.inFrontOf(
    nodes,
    { healthChecks, outlierDetection: { baseEjectionTimeMs: 3_000 }, lbPolicy: "round_robin" },
    { timeouts: { perTryIdleTimeoutMs: 1_500 } },
  );
  const load = closedLoop(gateway, CLIENTS);
  await becomes(async () => load.ended.length > CLIENTS, "requests flow");
  stopped?.signal("SIGSTOP");
  await becomes(async () => (await gateway.health(address)) === "/failed_outlier_check", "it is ejected");
  await becomes(async () => (await gateway.stat("svc_endpoint_rq_active", address)) === 0, "nobody waits on it");
  const ejections = await gateway.stat("svc_cluster_outlier_ejections_total", 'enforced="true"');
  stopped?.signal("SIGCONT");
  await healthy(gateway, address);
  const generated = (await stopped?.metric("svc_engine_generations_total")) ?? 0;
  const again = async () => ((await stopped?.metric("svc_engine_generations_total")) ?? 0) > generated + 3;
  await becomes(again, "it gets requests again");
  const ended = await load.finish(Math.max(load.ended.length, size(60, 900)));
  const tally = tallyOf(ended);
  const requests = gateway.process.log.filter(({ msg }) => msg === "request");
  const longestMs = Math.max(...requests.map(({ total_ms }) => Number(total_ms)));
  show("kill -STOP of 1 of 3", {
    clients: CLIENTS,
    requests: ended.length,
    ...tally,
    ...detailsOf(gateway),
    ejections,
    longestMs,
  });
  expect(ejections).toBeGreaterThanOrEqual(1);
  // Streams of the lost node end with an error. All others are answered by another node, as far as the retry budget
  // allows; the rest gets a retry delay.
  const overflow = await gateway.stat("svc_cluster_upstream_rq_retry_overflow_total");
  const refused = ended.filter(({ end }) => end === "refused").length;
  expect(refused).toBe(overflow);
  expect(wronglyEnded(ended)).toEqual([]);
  for (const { attempts } of requests) expect(attempts).toBeLessThanOrEqual(3);
  await nothingOpen(gateway, nodes);
});
