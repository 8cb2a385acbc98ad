import { expect, test } from "vitest";
import type { Admitted, NotAdmitted } from "../../../../gateway/upstream/admission/place-search.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { HINTS, routeFor } from "../../../support/gateway/front-rig.ts";
import { endpointWith } from "../../../support/gateway/upstream/endpoint-with.ts";
import { viewedAdmission } from "../../../support/gateway/upstream/viewed-admission.ts";
import { generateRequest } from "../../../support/requests/generate-request.ts";

/** Admission in front of `count` full endpoints; `readsOf` counts the reads of all of them. */
function fullCluster(count: number, timeoutMs = 3_600_000) {
  const addresses = Array.from({ length: count }, (_, at) => `127.0.0.1:${at + 1}`);
  let reads = 0;
  const get = (view: EndpointView, name: keyof EndpointView) => {
    reads += 1;
    return view[name];
  };
  const endpoints = addresses.map((address) => new Proxy(endpointWith({ address, slots: 1 }), { get }));
  const { admission, clock, views } = viewedAdmission(endpoints, { lbPolicy: "least_request" });
  for (const address of addresses) admission.room.holdBack(address, 60_000);
  const never = new AbortController().signal;
  const admitted: Promise<Admitted<string> | NotAdmitted>[] = [];
  const arrive = (tenant: string, tried: ReadonlySet<string> = new Set()) => {
    const hints = { ...HINTS, keyId: tenant };
    const asked = {
      route: routeFor(generateRequest({}, tenant), HINTS),
      tenant,
      hints,
      tried: new Set(tried),
      timeoutMs,
    };
    admitted.push(admission.acquire({ ...asked, mayHold: false, bytes: 0, underWay: false }, never));
  };
  const readsOf = async (run: () => unknown) => {
    const before = reads;
    await run();
    return reads - before;
  };
  return { views, addresses, admission, clock, arrive, admitted, readsOf };
}

test.each([4, 30, 100, 300])("%i endpoints: an arrival reads one of them", async (count) => {
  const { admission, arrive, readsOf } = fullCluster(count);
  const arrivals = Math.min(4 * count, 512);
  const reads = await readsOf(() => {
    for (let at = 0; at < arrivals; at += 1) arrive(`tenant ${at}`);
  });
  expect(admission.pending).toBe(arrivals);
  expect(reads).toBeLessThanOrEqual(arrivals);
});

test("a freed place costs a read of its endpoint, however many are full", async () => {
  const costs = [];
  for (const count of [4, 300]) {
    const { addresses, admission, clock, arrive, admitted, readsOf } = fullCluster(count);
    const tried = new Set(addresses.slice(0, 1));
    for (let at = 0; at < count; at += 1) arrive(`tenant ${at}`, at < 3 ? tried : undefined);
    const whenRoom = await readsOf(async () => {
      admission.room.holdBack(addresses[0] ?? "", 0);
      await clock.advance(100);
    });
    // Three had been attempted there and are skipped.
    expect(admission.pending).toBe(count - 1);
    const fourth = await admitted[3];
    if (typeof fourth !== "object") throw new Error("the fourth is served");
    expect(fourth.member).toBe(addresses[0]);
    const whenReleased = await readsOf(() => fourth.release());
    costs.push({ whenRoom, whenReleased });
  }
  expect(costs[0]?.whenRoom).toBe(costs[1]?.whenRoom);
  for (const { whenRoom, whenReleased } of costs) {
    expect(whenRoom).toBeLessThan(100);
    expect(whenReleased).toBeLessThan(100);
  }
});

test("a waiting request is served as soon as an endpoint has room, not at the next check", async () => {
  const { addresses, admission, clock, arrive, admitted } = fullCluster(30);
  admission.room.holdBack(addresses[3] ?? "", 10);
  arrive("a");
  await clock.advance(10);
  expect(admission.pending).toBe(0);
  expect(await admitted[0]).toMatchObject({ member: addresses[3] });
});

test("requests past their deadline are refused in slices, without a read of the endpoints", async () => {
  const { admission, clock, arrive, admitted, readsOf } = fullCluster(30, 1_000);
  for (let at = 0; at < 100; at += 1) arrive(`tenant ${at}`);
  await clock.advance(999);
  expect(await readsOf(() => clock.advance(1))).toBe(0);
  expect(new Set(await Promise.all(admitted))).toEqual(new Set(["pending_timeout"]));
  expect(admission.pending).toBe(0);
});

test("a request whose only endpoint leaves is refused at the next check, though others are full", async () => {
  const { views, addresses, admission, clock, arrive, admitted } = fullCluster(4);
  arrive("a", new Set(addresses.slice(1)));
  arrive("b");
  views.set(endpointWith({ address: addresses[0] ?? "", draining: true }));
  await clock.advance(100);
  expect(await admitted[0]).toBe("all_tried");
  expect(admission.pending).toBe(1);
});

test("many may wait on one signal without a warning", async () => {
  const { arrive, admission } = fullCluster(30);
  const warnings: string[] = [];
  const note = ({ name }: Error) => warnings.push(name);
  process.on("warning", note);
  for (let at = 0; at < 100; at += 1) arrive(`tenant ${at}`);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", note);
  expect([admission.pending, warnings]).toEqual([100, []]);
});
