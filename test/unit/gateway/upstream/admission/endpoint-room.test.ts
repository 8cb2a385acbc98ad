import { describe, expect, test } from "vitest";
import { EndpointRoom } from "../../../../../gateway/upstream/admission/endpoint-room.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import { CircuitBreaker } from "../../../../../gateway/upstream/queue/circuit-breaker.ts";
import { endpoints, endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** Two endpoints `e0` and `e1` in a cluster that runs three requests, two on each of them; `gained` counts new room. */
function twoEndpoints() {
  const clock = new VirtualClock();
  const views = new EndpointViews();
  const breaker = new CircuitBreaker({ maxRequests: 3, maxPendingRequests: 0 });
  const settings = { circuitBreakers: { maxRequestsPerEndpoint: 2 } };
  let gained = 0;
  const room = new EndpointRoom({ settings, views }, breaker, clock, () => {
    gained += 1;
  });
  for (const view of endpoints(2)) views.set(view);
  const roomy = () => room.endpoints.roomy.all.map(({ address }) => address).sort();
  const run = (address: string) => {
    const permit = breaker.tryRequest(address, 2);
    room.reconsider(address);
    return () => {
      permit?.release();
      room.reconsider(address);
    };
  };
  const report = (given: Partial<EndpointView>) => views.set(endpointWith({ address: "e0", ...given }));
  return { clock, views, room, roomy, run, report, gained: () => gained };
}

test("room depends on requests, the node's queue and its cache; onRoom reports gains", () => {
  const { roomy, run, report, gained } = twoEndpoints();
  const [end] = [run("e0"), run("e0")];
  expect([roomy(), gained()]).toEqual([["e1"], 2]);
  end?.();
  expect([roomy(), gained()]).toEqual([["e0", "e1"], 3]);
  for (const full of [{ waiting: 8 }, { kvUse: 0.95 }]) {
    report(full);
    expect(roomy()).toEqual(["e1"]);
    report({});
    expect(roomy()).toEqual(["e0", "e1"]);
  }
});

test("a cluster at its limit has no room, though endpoints have some", () => {
  const { room, roomy, run } = twoEndpoints();
  const [end] = [run("e0"), run("e0"), run("e1")];
  expect([room.any, roomy()]).toEqual([false, ["e1"]]);
  end?.();
  expect(room.any).toBe(true);
});

describe("an endpoint that announced when it has room again", () => {
  test("has none until then; the newest announcement counts", async () => {
    const { clock, room, roomy } = twoEndpoints();
    room.holdBack("e0", 1_000);
    room.holdBack("e0", 5_000);
    await clock.advance(4_999);
    expect(roomy()).toEqual(["e1"]);
    await clock.advance(1);
    expect(roomy()).toEqual(["e0", "e1"]);
  });

  test("is held back for at most a minute", async () => {
    const { clock, room, roomy } = twoEndpoints();
    room.holdBack("e0", 86_400_000);
    await clock.advance(59_999);
    expect(roomy()).toEqual(["e1"]);
    await clock.advance(1);
    expect(roomy()).toEqual(["e0", "e1"]);
  });

  test("has room when it returns after it left", () => {
    const { views, room, roomy, report } = twoEndpoints();
    room.holdBack("e0", 5_000);
    views.delete("e0");
    report({});
    expect(roomy()).toEqual(["e0", "e1"]);
  });
});
