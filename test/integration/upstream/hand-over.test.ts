import { describe, expect, test } from "vitest";
import { hello, inFrontOf, wired } from "../../support/gateway/upstream/routed.ts";
import { settle } from "../../support/gateway/upstream/settle.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

describe("a big request", () => {
  const MIB = 1024 * 1024;
  const big = (mib: number) => generateRequest({}, "x".repeat(mib * MIB));

  test("a big request that could not be written in time is refused as overload, without a retry or an ejection", async () => {
    const wires = await wired(hello, hello);
    // Health checks and keep-alives use real time, which a busy machine delays: a silent connection is given up after
    // 30 s of it, so this test advances little virtual time.
    const cluster = { healthChecks: { intervalMs: 3_600_000 } };
    const { rig } = await inFrontOf(wires, { cluster, timeouts: { acceptMs: 400, acceptPerMiBMs: 0 } });
    // Neither node reads any more: bytes beyond the HTTP/2 windows stay here.
    for (const wire of wires) wire.silence();
    for (let at = 0; at < 8; at += 1) {
      const sent = rig.send(big(2));
      expect(await settle(rig, sent.outcome)).toBe("upstream_hand_over_timeout");
      expect(sent.calls.attempts).toBe(1);
    }
    for (const { endpoint } of rig.cluster.members)
      expect(rig.cluster.outliers.isEjected(endpoint.address, rig.clock.nowMs())).toBe(false);
  });

  test("a big request is the only kind that is not retried: a small one finds an open connection", async () => {
    const wires = await wired(hello, hello);
    const cluster = { lbPolicy: "round_robin", healthChecks: { intervalMs: 3_600_000 } } as const;
    const { rig } = await inFrontOf(wires, { cluster, timeouts: { acceptMs: 10_000, acceptPerMiBMs: 0 } });
    const [closed] = wires;
    closed?.silence();
    // The bytes within the HTTP/2 windows are gone, and from then on the connection accepts none.
    const stuck = Array.from({ length: 8 }, () => rig.send(generateRequest({}, "x".repeat(100_000))));
    const outcomes = await settle(rig, Promise.all(stuck.map(({ outcome }) => outcome)));
    expect(outcomes).toEqual(stuck.map(() => "ok"));
    expect(stuck.some(({ calls }) => calls.attempts === 2)).toBe(true);
  });

  test("a big request is written to an endpoint after those before it, and small ones pass", async () => {
    const [wire] = await wired(hello);
    const { rig } = await inFrontOf([wire]);
    const [endpoint] = rig.cluster.endpoints;
    wire.slow();
    const first = rig.send(big(4));
    const second = rig.send(big(4));
    await until(() => endpoint?.handOvers.waiting === 1, "the second waits");
    const small = rig.send(generateRequest({}, "small"));
    expect(await small.outcome).toBe("ok");
    expect(endpoint?.handOvers.waiting).toBe(1);
    wire.restore();
    expect([await first.outcome, await second.outcome]).toEqual(["ok", "ok"]);
    expect(endpoint?.handOvers.waiting).toBe(0);
  });

  test("a big request whose caller disconnects while it waits lets the next one through", async () => {
    const [wire] = await wired(hello);
    const { rig } = await inFrontOf([wire]);
    const [endpoint] = rig.cluster.endpoints;
    wire.slow();
    const sent = Array.from({ length: 3 }, () => rig.send(big(4)));
    await until(() => endpoint?.handOvers.waiting === 2, "two wait");
    for (const one of sent.slice(0, 2)) one.leave();
    wire.restore();
    expect(await sent[2]?.outcome).toBe("ok");
    expect(endpoint?.handOvers.waiting).toBe(0);
  });
});
