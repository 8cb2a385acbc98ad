import { expect, test } from "vitest";
import { MAX_HELD_BYTES } from "../../../gateway/upstream/queue/held-room.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { type Asked, admitted, admitting, fill } from "../../support/gateway/upstream/admission-rig.ts";
import { until } from "../../support/until.ts";

/** Admission in front of one node, with functions to stop and start it. */
async function withOutage(circuitBreakers: object = {}, timeoutMs = 30_000) {
  const rig = await admitting(circuitBreakers, 1, timeoutMs);
  const becomes = async (serving: Serving, healthy: number) => {
    // The second report counts as the second check.
    for (let report = 0; report < 2; report += 1) rig.nodes[0]?.tell(serving);
    await until(() => rig.cluster.healthyEndpoints.length === healthy, `${healthy} healthy`);
    await rig.clock.advance(0);
  };
  const lose = () => becomes(Serving.NOT_SERVING, 0);
  const comeBack = () => becomes(Serving.SERVING, 1);
  const hold = (key = "a", given: Parameters<typeof rig.ask>[1] = {}) => rig.ask(key, { ...given, mayHold: true });
  return { ...rig, lose, comeBack, hold };
}

test("held requests, new and waiting ones, are served in queue order when a node is back", async () => {
  const { ask, hold, lose, comeBack, clock, admission } = await withOutage({ maxRequests: 1 });
  const [running] = await fill(() => ask(), 1);
  const order: string[] = [];
  const note = (name: string, asked: Asked) =>
    void admitted(asked).then((place) => {
      order.push(name);
      place.release();
    });
  note("waited", hold());
  await lose();
  running?.release();
  note("came", hold());
  expect(admission.held).toMatchObject({ requests: 2 });
  await clock.advance(119_000);
  expect(admission.pending).toBe(2);
  await comeBack();
  await until(() => order.length === 2, "both were served");
  expect(order).toEqual(["waited", "came"]);
  expect([admission.held.requests, admission.breaker.activeAndPending]).toEqual([0, 0]);
});

test("a request that may not be held fails at once; a waiting one keeps its whole timeout", async () => {
  const { ask, lose, clock } = await withOutage({ maxRequests: 1 });
  await fill(() => ask(), 1);
  const waiting = ask();
  await clock.advance(10_000);
  await lose();
  expect(await ask("b").result).toBe("none_available");
  let over = false;
  void waiting.result.then(() => {
    over = true;
  });
  await clock.advance(19_900);
  expect(over).toBe(false);
  await clock.advance(200);
  expect(await waiting.result).toBe("none_available");
});

test("the hold ends after its time; with a hold of 0 no request is held", async () => {
  const { hold, lose, clock, admission } = await withOutage({ noEndpointHoldMs: 60_000 });
  await lose();
  const held = hold();
  await clock.advance(59_900);
  expect(admission.pending).toBe(1);
  await clock.advance(200);
  expect(await held.result).toBe("none_available");
  expect(admission.held.requests).toBe(0);
  const without = await withOutage({ noEndpointHoldMs: 0 });
  await without.lose();
  expect(await without.hold().result).toBe("none_available");
});

test("when a node is back, held requests get a new timeout, and later ones the usual one", async () => {
  const { ask, hold, lose, comeBack, clock, admission } = await withOutage({ maxRequests: 1 }, 5_000);
  const [running] = await fill(() => ask(), 1);
  await lose();
  const held = hold();
  await clock.advance(118_000);
  await comeBack();
  const newcomer = hold();
  await clock.advance(5_100);
  expect(await newcomer.result).toBe("pending_timeout");
  await clock.advance(114_800);
  expect(admission.pending).toBe(1);
  await clock.advance(200);
  expect(await held.result).toBe("pending_timeout");
  running?.release();
});

test("the backlog of an outage is not taken for a standing queue: all is served, in order", async () => {
  const { ask, hold, lose, comeBack, clock } = await withOutage({ maxRequests: 1, maxPendingRequestsPerKey: 100 });
  await fill(() => ask(), 1).then(([place]) => place?.release());
  await lose();
  const order: number[] = [];
  for (let index = 0; index < 12; index += 1)
    void admitted(hold("a", { text: `${index}` })).then(async (place) => {
      order.push(index);
      await new Promise<void>((resolve) => clock.after(8_000, resolve));
      place.release();
    });
  await clock.advance(60_000);
  await comeBack();
  for (let seconds = 0; seconds < 100; seconds += 1) await clock.advance(1_000);
  expect(order).toEqual(Array.from({ length: 12 }, (_, index) => index));
});

test("holds are bounded in number and bytes, by tenant and by key", async () => {
  const bounds = { maxHeldRequests: 4, maxPendingRequestsPerKey: 1 };
  const bytes = (thousandths: number) => (MAX_HELD_BYTES * thousandths) / 1_000;
  const { hold, lose, admission } = await withOutage(bounds);
  await lose();
  void hold("a", { bytes: bytes(400) });
  expect(await hold("a", { bytes: bytes(101) }).result).toBe("none_available");
  void hold("a", { bytes: bytes(100) });
  expect(admission.held).toMatchObject({ requests: 2, bytes: bytes(500) });
  expect(await hold("a").result).toBe("none_available");
  const ofOne = { hints: { keyId: "one", maxPendingRequests: 1 } };
  const first = hold("b", ofOne);
  expect(await hold("b", ofOne).result).toBe("none_available");
  first.leave();
  expect(await hold("b", { bytes: bytes(501) }).result).toBe("none_available");
  const leaving = hold("b", { bytes: bytes(500) });
  leaving.leave();
  void hold("b", { bytes: bytes(500) });
  void hold("c");
  expect(await hold("d").result).toBe("none_available");
  expect(admission.held).toMatchObject({ requests: 4, bytes: bytes(1_000) });
});

test("an endpoint that was tried before the outage may be tried again after it", async () => {
  const { hold, lose, comeBack, nodes, admission } = await withOutage();
  await lose();
  const held = hold("a", { tried: new Set(nodes.map(({ address }) => address)) });
  expect(admission.pending).toBe(1);
  await comeBack();
  expect((await admitted(held)).member.endpoint.address).toBe(nodes[0]?.address);
});

test("the age of the outage counts from its beginning, and restarts when an endpoint announces itself", async () => {
  const { lose, comeBack, nodes, admission, clock } = await withOutage();
  expect(admission.outageMs()).toBeUndefined();
  await clock.advance(10_000);
  await lose();
  expect(admission.outageMs()).toBe(0);
  await clock.advance(40_000);
  expect(admission.outageMs()).toBe(40_000);
  // Like a node that is gone, and returns without serving yet.
  nodes[0]?.breakWatches();
  await until(() => admission.outageMs() === 0, "the node announces itself");
  await clock.advance(3_000);
  expect(admission.outageMs()).toBe(3_000);
  await comeBack();
  expect(admission.outageMs()).toBeUndefined();
});
