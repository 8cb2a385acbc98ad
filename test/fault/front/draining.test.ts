import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { ANSWER_PATHS, bodyFor, brokenEnd } from "../../support/http/answer-check.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { streamOnce, tallyOf } from "../../support/processes/closed-loop.ts";
import { Fleet, HELD, LONG, letEnd, show, size } from "../../support/processes/fleet.ts";
import { endsOf, openStreams } from "../../support/processes/open-streams.ts";

/* SIGTERM of the gateway; FULL=1 with the promised numbers of connections. */

const NODES = 3;
const STREAMS = NODES * size(20, 333);
const QUEUED = size(9, 99);
const IDLE = size(8, 50);
const SILENT = size(5, 20);

const fleet = new Fleet();

test("J1 a draining gateway completes running and waiting requests, and admits no new waiters", async () => {
  const nodes = await fleet.engines(NODES, HELD);
  const circuitBreakers = {
    maxRequestsPerEndpoint: STREAMS / NODES,
    maxPendingRequests: QUEUED,
  };
  const gateway = await fleet.inFrontOf(nodes, { circuitBreakers }, { timeouts: { pendingTimeoutMs: 120_000 } });
  const streams = await openStreams(gateway, STREAMS);
  const key = await gateway.createKey("--models", "all", "--name", "queued", "--queued", String(QUEUED));
  const waiting = { post: (path: string, body: unknown) => gateway.post(path, body, undefined, key) };
  const queued = Array.from({ length: QUEUED }, (_, index) =>
    streamOnce(waiting, ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages", `queued ${index}`),
  );
  await becomes(async () => (await gateway.stat("svc_cluster_upstream_rq_pending_active")) === QUEUED, "they wait");
  const silent = await Promise.all(Array.from({ length: SILENT }, () => RawConnection.open(gateway.port)));
  const idle = await Promise.all(
    Array.from({ length: IDLE }, async () => {
      const connection = await RawConnection.open(gateway.port);
      const authorization = `authorization: Bearer ${gateway.key}`;
      expect((await connection.write(head("GET /v1/models HTTP/1.1", "host: x", authorization)).reply()).status).toBe(
        200,
      );
      return connection;
    }),
  );
  gateway.process.signal("SIGTERM");
  await Promise.all([...silent, ...idle].map((connection) => connection.untilClosed()));
  const readyAfter = await fetch(`${gateway.adminUrl}/ready`);
  expect({ status: readyAfter.status, text: await readyAfter.text() }).toEqual({ status: 503, text: "DRAINING\n" });
  letEnd(nodes);
  const ends = await endsOf(streams);
  const waited = tallyOf(await Promise.all(queued));
  const code = await gateway.process.ended;
  const complete = ends.filter(({ end }) => end === "complete").length;
  show("SIGTERM of the gateway", { streams: STREAMS, complete, waited, idle: IDLE, silent: SILENT, code });
  expect({ complete, waited, code }).toEqual({ complete: STREAMS, waited: { complete: QUEUED }, code: 0 });
});

test("J2 a gateway that may not wait any longer ends all requests as its formats end broken ones", async () => {
  const nodes = await fleet.engines(3, { ...LONG, answerTokens: { min: 2_000, max: 2_000 } });
  const count = size(60, 300);
  const gateway = await fleet.inFrontOf(nodes, {}, { drainTimeoutMs: 2_000 });
  const streams = await openStreams(gateway, count);
  const folded = ANSWER_PATHS.map(async (path) => {
    const response = await gateway.post(path, bodyFor(path, "not streamed"));
    return { path, status: response.status, text: await response.text() };
  });
  const busy = async () => (await gateway.stat("svc_endpoint_rq_active")) === count + ANSWER_PATHS.length;
  await becomes(busy, "all run");
  gateway.process.signal("SIGTERM");
  const ends = await endsOf(streams);
  const replies = await Promise.all(folded);
  const code = await gateway.process.ended;
  show("SIGTERM of the gateway, 2 s", { streams: count, code });
  expect(code).toBe(0);
  for (const [index, one] of ends.entries()) {
    expect(one.end).toBe(brokenEnd(streams[index]?.path ?? "/v1/responses"));
    if (one.end === "error") expect(JSON.stringify(one)).toContain("the service is restarting");
  }
  for (const { path, status, text } of replies) {
    expect(status).toBe(path === "/v1/messages" ? 529 : 503);
    expect(text).toContain("the service is restarting");
  }
  for (const node of nodes) await becomes(async () => (await node.busy()) === 0, "no slot is taken");
});
