import { describe, expect, test } from "vitest";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { started } from "../../support/events/events.ts";
import { engine, inFrontOf, staysAt, wireTo } from "../../support/gateway/upstream/routed.ts";
import { settle, settleUntil } from "../../support/gateway/upstream/settle.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

/** The step, in milliseconds, by which virtual time passes where silences of 20 s and more have to end. */
const OF_SILENCE_MS = 200;

/** Starts `count` wires to one engine, as if it were as many. */
async function behindWires(script: Script, count: number) {
  const one = await engine(script);
  const wires = await Promise.all(Array.from({ length: count }, () => wireTo(one)));
  return { one, wires, ...(await inFrontOf(wires)) };
}

describe("H12 a request that kills engines", () => {
  test("a request that kills engines fails after the second one, and is refused from then on; other requests are not", async () => {
    const { rig, one, wires } = await behindWires(staysAt([started()]), 4);
    const poison = generateRequest({}, "poison");
    const sent = rig.send(poison);
    for (const [index, wire] of wires.slice(0, 2).entries()) {
      // Only a request that an engine has begun to process can have killed it.
      await settleUntil(rig, () => sent.events.length === index + 1, "an engine works on it");
      expect(rig.manager.endpoints[index]?.activeRequests).toBe(1);
      wire.cut();
      await until(() => rig.manager.endpoints[index]?.activeRequests === 0, "the loss is noticed");
    }
    expect(await settle(rig, sent.outcome)).toBe("request_of_death");
    expect(sent.calls).toMatchObject({ attempts: 2, failedAttempts: ["upstream_reset", "upstream_reset"] });
    expect(await rig.send(poison).outcome).toBe("request_of_death");
    expect(one.backend.requests).toHaveLength(2);
    const other = rig.send(generateRequest({}, "harmless"));
    await settleUntil(rig, () => one.backend.requests.length === 3, "another request is served");
    other.leave();
    await other.outcome;
    await rig.clock.advance(600_000);
    await until(() => rig.cluster.healthyEndpoints.length > 0, "it goes on");
    const again = rig.send(poison);
    await settleUntil(rig, () => one.backend.requests.length === 4, "it is tried again after its time");
    again.leave();
    await again.outcome;
  });

  test("a request that kills engines fails after the second endpoint that became silent on it", async () => {
    const { rig, one } = await behindWires(staysAt([started()]), 3);
    const poison = generateRequest({}, "poison");
    const sent = rig.send(poison);
    expect(await settle(rig, sent.outcome, OF_SILENCE_MS)).toBe("request_of_death");
    expect(sent.calls.attempts).toBe(2);
    expect(one.backend.requests).toHaveLength(2);
    expect(await rig.send(poison).outcome).toBe("request_of_death");
  });

  test("a request that kills engines is distinguished from requests that were lost beside it, which are retried a little later", async () => {
    const { rig, one, wires } = await behindWires(staysAt([started()]), 3);
    const requests = ["poison", "harmless"].map((text) => generateRequest({}, text));
    const sent = requests.map((request) => rig.send(request));
    for (const [index, wire] of wires.slice(0, 2).entries()) {
      await settleUntil(rig, () => sent.every(({ events }) => events.length === index + 1), "an engine works on both");
      wire.cut();
    }
    await until(() => sent.every(({ calls }) => calls.failedAttempts.length === 2), "the losses are noticed");
    // A suspect that returns meanwhile waits, too.
    const [again] = requests;
    sent.push(rig.send(again));
    await rig.clock.advance(9_000);
    expect(one.backend.requests).toHaveLength(4);
    await settleUntil(rig, () => one.backend.requests.length === 7, "all are tried again");
    for (const { leave, outcome } of sent) {
      leave();
      await outcome;
    }
  });

  test("a request that kills engines is not one whose endpoints had announced their shutdown", async () => {
    const nodes = await Promise.all([engine(staysAt([started()])), engine(staysAt([started()]))]);
    const wires = await Promise.all(nodes.map(wireTo));
    const { rig } = await inFrontOf(wires);
    const members = rig.cluster.members;
    const sent = rig.send(generateRequest({}, "innocent"));
    for (const [index, wire] of wires.entries()) {
      await settleUntil(rig, () => sent.events.length === index + 1, "an engine works on it");
      nodes[index]?.server.startDraining();
      await until(() => members[index]?.isLeaving(rig.clock.nowMs()) === true, "it says that it goes");
      wire.cut();
    }
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
  });
});
