import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { FaultyWire } from "../../support/engine/faulty-wire.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, hasDelta } from "../../support/http/answer-check.ts";
import { jsonPost, RawConnection } from "../../support/http/raw-http.ts";
import { metricQuantile } from "../../support/metric-text.ts";
import { startFront } from "../../support/processes/fault-front.ts";
import { Fleet, healthy, nothingOpen, show, size } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { openStreams } from "../../support/processes/open-streams.ts";
import { covering } from "../../support/size.ts";

/* E5: clients that disconnect, in every phase of a request and in every way to close a connection. */

const SLOW_FIRST_TOKEN = { timeToFirstTokenMs: 600_000 };
const ENDLESS = { tokensPerSecond: 25, answerTokens: { min: 2_000, max: 2_000 } };

type Way = "closes" | "half-closes" | "resets";

const LEAVE: Readonly<Record<Way, (connection: RawConnection) => void>> = {
  closes: (connection) => connection.destroy(),
  // A half-closed connection counts as disconnected, as in Node: agents never half-close.
  "half-closes": (connection) => void connection.endWriting(),
  resets: (connection) => connection.reset(),
};
const WAYS = Object.keys(LEAVE) as Way[];
const REQUESTS = 2 * WAYS.length;
const LAST = "at the last delta";

const fleet = new Fleet();

async function send(gateway: GatewayProcess, path: AnswerPath, stream: boolean): Promise<RawConnection> {
  const connection = await RawConnection.open(gateway.port);
  return connection.write(jsonPost(path, gateway.key, bodyFor(path, "hi", { stream })));
}

async function untilDelta(path: AnswerPath, connection: RawConnection): Promise<void> {
  await becomes(async () => hasDelta(path, connection.unread), "a delta came");
}

describe("a client", () => {
  const phases = [
    { phase: "queued", backend: SLOW_FIRST_TOKEN, breakers: { maxRequestsPerEndpoint: 1, maxPendingRequests: 100 } },
    { phase: "before it is accepted", backend: {}, breakers: {} },
    { phase: "in its prefill", backend: SLOW_FIRST_TOKEN, breakers: {} },
    { phase: "in the answer", backend: ENDLESS, breakers: {} },
    { phase: LAST, backend: { answerTokens: { min: 4, max: 4 } }, breakers: {} },
  ];
  // Without FULL=1 every phase and every format, but not each with each.
  const rows = covering(
    phases.flatMap((row) => ANSWER_PATHS.map((path) => ({ ...row, path }))),
    ({ phase }) => phase,
    ({ path }) => path,
  );
  test.each(rows)(
    "E5 of $path that closes, half-closes or resets its connection $phase leaves nothing behind",
    async ({ phase, path, backend, breakers }) => {
      const engine = await fleet.engine("node", backend);
      const wire = await FaultyWire.start(engine.address);
      fleet.onEnd(() => wire.close());
      const gateway = await startFront([wire.address], breakers);
      fleet.onEnd(() => gateway.end());
      await healthy(gateway, wire.address);
      if (phase === "before it is accepted") engine.signal("SIGSTOP");
      const sent = await Promise.all(
        WAYS.flatMap((way) =>
          [true, false].map(async (stream) => {
            const connection = await send(gateway, path, stream);
            const leave = () => LEAVE[way](connection);
            if (phase === LAST) {
              if (stream) await untilDelta(path, connection);
              leave();
            }
            return { connection, stream, leave };
          }),
        ),
      );
      const stat = (name: string) => gateway.stat(name);
      if (phase === "queued")
        await becomes(async () => (await stat("svc_cluster_upstream_rq_pending_active")) === REQUESTS - 1, "they wait");
      else if (phase !== LAST)
        await becomes(async () => (await stat("svc_endpoint_rq_active")) === REQUESTS, "all are sent");
      if (phase === "in the answer")
        for (const { connection, stream } of sent) if (stream) await untilDelta(path, connection);
      if (phase === "in its prefill")
        await becomes(async () => (await engine.metric("svc_engine_slots_busy")) === REQUESTS, "the engine works");
      if (phase !== LAST) for (const { leave } of sent) leave();
      await becomes(async () => (await gateway.open()) === 0, "nothing is open in the gateway");
      for (const { connection } of sent) await connection.untilClosed();
      engine.signal("SIGCONT");
      await becomes(async () => (await engine.busy()) === 0, "no slot is taken");
      const logged = () => gateway.process.log.filter(({ msg }) => msg === "request");
      await becomes(async () => logged().length === REQUESTS, "all are logged");
      if (phase === LAST) return;
      for (const line of logged()) expect(line).toMatchObject({ end_reason: "client_closed", response_flags: "DC" });
    },
  );
});

describe("many clients", () => {
  test("E6 that leave at once leave nothing behind", async () => {
    const count = size(200, 1_000);
    const [node] = await fleet.engines(1, { ...ENDLESS, tokensPerSecond: 2, slots: 1_000, kvTokens: 10_000_000 });
    if (!node) throw new Error("a node was started");
    const gateway = await fleet.inFrontOf([node]);
    const leaving = new AbortController();
    const streams = await openStreams(gateway, count, { signal: leaving.signal });
    expect(await node.metric("svc_engine_slots_busy")).toBe(count);
    const reading = streams.map(({ body }) => body.toEnd().catch(() => ""));
    leaving.abort();
    await Promise.all(reading);
    await nothingOpen(gateway, [node]);
    const quantile = async (text: Promise<string>, name: string) => metricQuantile(await text, name, 1);
    show("clients that leave at once", {
      clients: count,
      engineCancelAtMost: await quantile(node.metrics(), "svc_engine_cancel_latency_seconds"),
      gatewayCancelAtMost: await quantile(gateway.stats(), "svc_cancel_latency_seconds"),
    });
    expect(await node.metric("svc_engine_cancel_latency_seconds_count")).toBe(count);
  });
});
