import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { closedLoop, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import { detailsOf, Fleet, healthy, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";

/*
 * A node that hangs under load. FULL=1 has the promised sizes. Nodes that are killed or restarted (J3, J4):
 * test/fault/continuation.test.ts.
 */

const CLIENTS = size(9, 40);

const fleet = new Fleet();

test("H2 a stopped node is ejected, and returns when it resumes", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const [stopped] = nodes;
  const address = stopped?.address ?? "";
  // Checks so rare that requests detect the fault.
  const healthChecks = { intervalMs: 60_000 };
  const gateway = await fleet.inFrontOf(
    nodes,
    { healthChecks, outlierDetection: { baseEjectionTimeMs: 1_000 }, lbPolicy: "round_robin" },
    { timeouts: { perTryIdleTimeoutMs: 1_500 } },
  );
  const load = closedLoop(gateway, CLIENTS);
  await becomes(async () => load.ended.length > CLIENTS, "requests flow");
  stopped?.signal("SIGSTOP");
  await becomes(async () => (await gateway.health(address)) === "/failed_outlier_check", "it is ejected");
  await becomes(async () => (await gateway.stat("svc_endpoint_rq_active", address)) === 0, "no request waits on it");
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
